"""Serve the explorer in a browser, for anyone who has its address."""

from __future__ import annotations

import argparse
import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hardware.errors import RequestError
from hwexplorer.declare import Verb
from hwexplorer.options import MODEL, option, or_default, whole
from hwexplorer.process.output import complain

if TYPE_CHECKING:
    from hwexplorer.state import State

PORT = 8000
CLIENTS, CLIENTS_MAX = 16, 1000


def _run(arguments: argparse.Namespace) -> None:
    from hwexplorer import engine
    from hwexplorer.process import relaunch
    from hwexplorer.state import parse

    state = parse(arguments.model)
    if not engine.is_ready(state):  # report an unknown or forbidden model before serving
        engine.capture_job(state)
        raise RequestError(f"{state.model} is not captured yet: run hwexplorer capture")
    for name in state.devices:
        engine.device(name)
    words = ["open", arguments.model]
    for folder in arguments.devices_dir:
        words += ["--devices-dir", str(folder)]
    url = _public_url(arguments.host, arguments.port, arguments.public_url)
    _serve(relaunch.command(words), arguments, url, [*_files(state), *map(str, arguments.devices_dir)])


def _serve(command: list[str], arguments: argparse.Namespace, url: str, readable: list[str]) -> None:
    try:
        from hwexplorer.commands._web_gate import Gate, is_loopback
    except ImportError:
        raise RequestError("serve needs textual-serve: pip install textual-serve") from None
    gate = Gate(command, arguments.host, arguments.port, url, readable, arguments.clients)
    if not is_loopback(arguments.host) and not url.startswith("https:"):
        complain(
            f"WARNING: listening on {arguments.host} without encryption: anyone who sees the traffic sees the token."
            " Put a proxy with TLS in front, and give --public-url https://.."
        )
    try:
        gate.run()
    except OSError as error:
        raise RequestError(
            f"cannot listen on {arguments.host}:{arguments.port}: {error.strerror or error} (--port picks another)"
        ) from None


def _files(state: State) -> list[str]:
    """Return the file of the served model, if it has one: the explorers of clients may read it."""
    from analysis.model.names import targets
    from analysis.model.transformer.transformer_request import HUB, split_hub

    if state.model.startswith(HUB):
        return [split_hub(state.model.removeprefix(HUB))[0].strip()]
    target = targets.parse(state.model)
    return [target.path] if target is not None else []


def _public_url(host: str, port: int, given: str | None) -> str:
    """Return the address that browsers use. Raises RequestError if `given` is wrong or required."""
    if given is not None:
        parts = urlsplit(given)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise RequestError(
                f"--public-url {given[:80]!r}: expected e.g. https://explorer.example or http://box:8000"
            )
        return given.rstrip("/")
    try:
        is_any = not host or ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        is_any = False
    if is_any:
        import socket

        raise RequestError(
            f"--host {host} means all addresses of this machine: add --public-url with the "
            f"name that browsers use, e.g. http://{socket.gethostname()}:{port}"
        )
    name = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"http://{name}:{port}"


VERB = Verb(
    options=(
        or_default(MODEL, "resnet50"),
        option("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1: this machine only)"),
        option("--port", type=whole(1, 65_535), default=PORT, metavar="N", help=f"port to listen on (default {PORT})"),
        option("--public-url", metavar="URL", help="address in browsers, behind a proxy"),
        option(
            "--clients", type=whole(1, CLIENTS_MAX), default=CLIENTS, metavar="N", help=f"at once (default {CLIENTS})"
        ),
    ),
    run=_run,
    shown=("resnet50",),
)
