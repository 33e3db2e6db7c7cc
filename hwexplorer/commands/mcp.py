"""Answer agents: a server of the Model Context Protocol on standard input and output.

Tools: check, compare, why, search, serve, models, devices. Standard output carries the protocol alone, as lines of JSON
(JSON-RPC 2.0): initialize, ping, tools/list and tools/call.
"""

import argparse
import os
import sys
from collections.abc import Iterable
from typing import IO, Any, Literal

import msgspec

from hardware.base.errors import RequestError, unknown
from hwexplorer.commands._agent_tools import TOOLS, answer_call, listing
from hwexplorer.declare import Verb
from hwexplorer.process.output import say
from hwexplorer.version import VERSION

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # of the protocol, the newest first
_INSTRUCTIONS = (
    "Predicted time, energy and memory of neural networks on hardware. Answers begin with the verdict; figures are in "
    "SI units with 4 digits. Quote them as they are, with their odds and evidence. `tokens` asks for longer answers."
)
_PARSE, _INVALID, _NO_METHOD = -32700, -32600, -32601  # codes of JSON-RPC


class _Request(msgspec.Struct):
    """A request, or without `id` a notification, which has no reply."""

    jsonrpc: Literal["2.0"]
    method: str
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    params: dict[str, Any] = {}


def serve(lines: Iterable[bytes], out: IO[bytes]) -> None:
    """Answer each line until the input ends. A line that is no request is answered with an error, and ends nothing."""
    for line in lines:
        if line.strip() and (reply := _reply(line)) is not None:
            out.write(msgspec.json.encode({"jsonrpc": "2.0", **reply}) + b"\n")
            out.flush()


def _reply(line: bytes) -> dict[str, Any] | None:
    try:
        request = msgspec.json.decode(line, type=_Request)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        code = _INVALID if isinstance(error, msgspec.ValidationError) else _PARSE
        return {"id": None, "error": {"code": code, "message": f"expected one request of JSON-RPC 2.0: {error}"}}
    if request.id is msgspec.UNSET:
        return None
    methods = {"initialize": _initialize, "ping": lambda _: {}, "tools/list": _list_tools, "tools/call": _call_tool}
    if request.method not in methods:
        message = str(unknown("method", request.method, methods))
        return {"id": request.id, "error": {"code": _NO_METHOD, "message": message}}
    return {"id": request.id, "result": methods[request.method](request.params)}


def _initialize(parameters: dict[str, Any]) -> dict[str, Any]:
    version = parameters.get("protocolVersion")
    return {
        "protocolVersion": version if version in VERSIONS else VERSIONS[0],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "hwexplorer", "version": VERSION},
        "instructions": _INSTRUCTIONS,
    }


def _list_tools(_: dict[str, Any]) -> dict[str, Any]:
    return {"tools": [listing(tool) for tool in TOOLS]}


def _call_tool(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a tool, or what was wrong with the question: the agent may correct it."""
    is_wrong = True
    try:
        text, is_wrong = answer_call(str(parameters.get("name")), parameters.get("arguments") or {}), False
    except RequestError as error:
        text = str(error)
    except Exception as error:
        if os.environ.get("HWEXPLORER_DEBUG"):
            raise
        text = f"internal error: {type(error).__name__}: {error}"
    return {"content": [{"type": "text", "text": text}], "isError": is_wrong}


def _run(arguments: argparse.Namespace) -> None:
    if sys.stdin.isatty():
        say("an agent's program writes to this server: one request of JSON-RPC a line; ctrl+d ends it")
    with os.fdopen(os.dup(1), "wb") as answer_pipe:
        os.dup2(2, 1)  # whatever else is printed goes to standard error
        try:
            serve(sys.stdin.buffer, answer_pipe)
        finally:
            os.dup2(answer_pipe.fileno(), 1)


VERB = Verb(run=_run, shown=("",))
