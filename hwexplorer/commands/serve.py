"""The explorer in a browser."""

from __future__ import annotations

import argparse
import ipaddress
import re
import shlex
import sys
from typing import TYPE_CHECKING, Any

from hardware.errors import RequestError
from hwexplorer.declare import Verb
from hwexplorer.options import MODEL, option, or_default, whole

if TYPE_CHECKING:
    from aiohttp import web

PORT = 8000
_LINK = re.compile(r"<link[^>]*?href=\"(https?://[^\"]*)\"[^>]*>")
# The page has no title, and its terminal takes keys only after a click: as soon as it is there it shall have them.
_HEAD = """<title>hwexplorer</title><script>
const waiting = setInterval(() => {
  const keys = document.querySelector(".xterm-helper-textarea");
  if (keys) { keys.focus(); clearInterval(waiting); }
}, 50);
</script></head>"""


def _run(arguments: argparse.Namespace) -> None:
    from hwexplorer import engine, itself
    from hwexplorer.state import parse

    state = parse(arguments.model)
    engine.is_ready(state)  # an unknown model is better said here than in a browser
    for name in state.devices:
        engine.device(name)
    words = ["open", arguments.model]
    for folder in arguments.devices_dir:
        words += ["--devices-dir", str(folder)]
    server = _server(shlex.join(itself.command(words)), arguments.host, arguments.port, arguments.public_url)
    if not is_loopback(arguments.host):
        print(
            f"hwexplorer: WARNING: listening on {arguments.host}: whoever reaches this port uses the explorer as you, "
            "and can write files by exporting. There is no password and no encryption.",
            file=sys.stderr,
            flush=True,
        )
    try:
        server.serve()
    except OSError as error:
        raise RequestError(
            f"cannot listen on {arguments.host}:{arguments.port}: {error.strerror or error} (--port picks another)"
        ) from None


def is_loopback(host: str) -> bool:
    """Only this machine gets there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _server(command: str, host: str, port: int, public_url: str | None) -> Any:
    try:
        from aiohttp import web
        from textual_serve.server import Server
    except ImportError:
        raise RequestError("serve needs textual-serve: pip install textual-serve") from None

    class Guarded(Server):  # type: ignore[misc,unused-ignore]
        """Only pages that this server itself made may talk to it: any web page can open a socket to localhost."""

        async def handle_index(self, request: web.Request) -> Any:
            self._check_host(request)
            page: Any = await super().handle_index(request)
            page.text = _LINK.sub(self._if_ours, page.text or "").replace("</head>", _HEAD)
            return page

        def _if_ours(self, link: re.Match[str]) -> str:
            """The style sheet stays; a font that would be fetched from elsewhere goes."""
            return link[0] if link[1].startswith(self.public_url.rstrip("/") + "/") else ""

        async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
            self._check_host(request)
            origin = request.headers.get("Origin", "")
            if origin.rstrip("/") not in self._origins():
                raise web.HTTPForbidden(text="opened from another page")
            return await super().handle_websocket(request)

        def _origins(self) -> set[str]:
            names = {self.host, *(("localhost", "127.0.0.1", "[::1]") if is_loopback(self.host) else ())}
            return {self.public_url.rstrip("/"), *(f"http://{name}:{self.port}" for name in names)}

        def _check_host(self, request: web.Request) -> None:
            """A name that somebody else made point here is not one of ours (DNS rebinding)."""
            if is_loopback(self.host):
                allowed = {origin.partition("://")[2] for origin in self._origins()}
                if request.headers.get("Host", "") not in allowed:
                    raise web.HTTPForbidden(text="unknown host name")

    return Guarded(command, host=host, port=port, title="hwexplorer", public_url=public_url)


VERB = Verb(
    options=(
        or_default(MODEL, "resnet50"),
        option("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1: this machine only)"),
        option("--port", type=whole(1, 65_535), default=PORT, metavar="N", help=f"default {PORT}"),
        option("--public-url", metavar="URL", help="what browsers call it, behind a proxy"),
    ),
    run=_run,
)
