"""The Model Context Protocol over lines of JSON (JSON-RPC 2.0): initialize, ping, tools/list and tools/call."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import IO, Any

import msgspec

from hardware.errors import RequestError, unknown
from hwexplorer.commands._agent_tools import TOOLS, answer_call, listing
from hwexplorer.version import VERSION

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # of the protocol, the newest first
_INSTRUCTIONS = (
    "Predicted time, energy and memory of neural networks on hardware. Answers begin with the verdict; figures are in "
    "SI units with 4 digits. Quote them as they are, with their odds and evidence. `tokens` asks for longer answers."
)
_PARSE, _INVALID, _NO_METHOD, _PARAMETERS = -32700, -32600, -32601, -32602


class _ProtocolError(Exception):
    """A request that has no result. `code` is that of JSON-RPC."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def serve(lines: Iterable[bytes], out: IO[bytes]) -> None:
    """Answer each line until the input ends. A line that asks nothing, or is no request, ends nothing."""
    for line in lines:
        if line.strip() and (reply := _reply(line)) is not None:
            out.write(msgspec.json.encode({"jsonrpc": "2.0", **reply}) + b"\n")
            out.flush()


def _reply(line: bytes) -> dict[str, Any] | None:
    """Return the reply to a line, None to a notification."""
    number: Any = None
    try:
        request = _decode(line)
        number, method = request.get("id"), request.get("method")
        if method is None and "id" in request and request.keys() & {"result", "error"}:
            return None  # a reply, although nothing was asked
        if not isinstance(method, str) or request.get("jsonrpc") != "2.0" or not isinstance(number, int | str | None):
            raise _ProtocolError(_INVALID, "expected a request of JSON-RPC 2.0 with a method")
        parameters = request.get("params") or {}
        if not isinstance(parameters, dict):
            raise _ProtocolError(_PARAMETERS, "params must be an object")
        if "id" not in request:
            return None
        return {"id": number, "result": _result(method, parameters)}
    except _ProtocolError as error:
        number = number if isinstance(number, int | str) else None
        return {"id": number, "error": {"code": error.code, "message": str(error)}}


def _decode(line: bytes) -> dict[str, Any]:
    try:
        request = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _ProtocolError(_PARSE, f"not JSON: {error}") from None
    if not isinstance(request, dict):
        raise _ProtocolError(_INVALID, "expected one request, an object")
    return request


def _result(method: str, parameters: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        version = parameters.get("protocolVersion")
        return {
            "protocolVersion": version if version in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "hwexplorer", "version": VERSION},
            "instructions": _INSTRUCTIONS,
        }
    if method == "tools/list":
        return {"tools": [listing(tool) for tool in TOOLS]}
    if method == "tools/call":
        return _call(parameters)
    if method == "ping":
        return {}
    raise _ProtocolError(_NO_METHOD, str(unknown("method", method, ("initialize", "ping", "tools/list", "tools/call"))))


def _call(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a tool, or what was wrong with the question: the agent may correct it."""
    try:
        text, is_wrong = answer_call(str(parameters.get("name")), parameters.get("arguments") or {}), False
    except RequestError as error:
        text, is_wrong = str(error), True
    except Exception as error:
        if os.environ.get("HWEXPLORER_DEBUG"):
            raise
        text, is_wrong = f"internal error: {type(error).__name__}: {error}", True
    return {"content": [{"type": "text", "text": text}], "isError": is_wrong}
