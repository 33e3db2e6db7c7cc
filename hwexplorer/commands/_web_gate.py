"""The web server of `hwexplorer serve`: textual-serve behind a secret token.

Each client has an explorer in a separate process, which ends when the client leaves.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import os
import re
import secrets
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import aiohttp_jinja2
import jinja2
from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from textual_serve.app_service import AppService
from textual_serve.server import Server, to_int

from hardware import policy
from hwexplorer.process import relaunch

MESSAGE_MAX = 64 << 10  # bytes of one message from a browser: enough for a page of pasted text
COLUMNS, ROWS = (20, 500), (5, 200)  # smallest and largest size of a terminal
MEMORY_MAX = 1 << 30  # bytes that one explorer may allocate
HEARTBEAT_S = 15.0  # a browser that answers no ping for this long is disconnected
LEAVE_S = 8.0  # after this an explorer that was asked to leave is killed; more than GRACE_S of process/signals.py
HEAD_S, WAITING_MAX = 5.0, 200  # for the first request; connections without a request
SEND_S = 2.0  # for an explorer to accept input from a browser
DRIVER = "hwexplorer.tui.terminals.browser_driver:Driver"

_LINK = re.compile(r"<link[^>]*?href=\"(https?://[^\"]*)\"[^>]*>")
# Add a title, and focus the terminal as soon as it exists: otherwise it takes keys only after a click.
# Open a file as a download behind the token: blockers would close a window.
_HEAD = """<title>hwexplorer</title><meta name="viewport" content="width=device-width,initial-scale=1"><script>
const waiting = setInterval(() => {
  const keys = document.querySelector(".xterm-helper-textarea");
  if (keys) { keys.focus(); clearInterval(waiting); }
}, 50);
const open = window.open;
window.open = (url, ...rest) => {
  const [, key] = url.split("/download/");
  if (!key) return open(url, ...rest);
  Object.assign(document.createElement("a"), {href: "DOWNLOADS" + key, download: ""}).click();
};
</script></head>"""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ServedExplorer(AppService):  # type: ignore[misc,unused-ignore]
    """The explorer of one client. It may read only the named files of this machine, and its memory is limited."""

    def __init__(self, words: Sequence[str], readable: Sequence[str], socket: web.WebSocketResponse, server: Server):
        super().__init__(
            "",
            write_bytes=socket.send_bytes,
            write_str=socket.send_str,
            close=self._close,
            download_manager=server.download_manager,
        )
        self._words, self._readable, self._socket = words, readable, socket

    async def _close(self) -> None:
        await self._socket.close()

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        """Start the explorer in a new session, so that its children can be killed with it."""
        environment = {
            **self._build_environment(_clamp(width, COLUMNS), _clamp(height, ROWS)),
            **relaunch.environment(),
            policy.VARIABLE: policy.encode(self._readable),
            "TEXTUAL_DRIVER": DRIVER,
            "TEXTUAL_COLOR_SYSTEM": "truecolor",
            "COLUMNS": str(_clamp(width, COLUMNS)),
            "ROWS": str(_clamp(height, ROWS)),
            "OPENBLAS_NUM_THREADS": "1",  # all clients share the cores
            "OMP_NUM_THREADS": "1",
        }
        self._process = process = await asyncio.create_subprocess_exec(
            *self._words, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, start_new_session=True
        )
        self._stdin = process.stdin
        _limit_memory(process.pid)
        return process

    async def send_bytes(self, data: bytes) -> bool:
        """Send input to the explorer. Close the socket if the explorer does not accept it within SEND_S."""
        try:
            return bool(await asyncio.wait_for(super().send_bytes(data), SEND_S))
        except TimeoutError:
            await self._socket.close(code=1008, message=b"more than the explorer can take")
            return False

    async def set_terminal_size(self, width: int, height: int) -> None:
        """Tell the explorer the size of the browser's terminal, within limits."""
        await super().set_terminal_size(_clamp(width, COLUMNS), _clamp(height, ROWS))

    async def stop(self) -> None:
        """End the explorer, which has LEAVE_S to leave, and kill its children."""
        process, self._process = self._process, None
        if process is None:
            return
        await self._download_manager.cancel_app_downloads(app_service_id=self.app_service_id)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        with suppress(ProcessLookupError):
            process.terminate()  # a message would wait behind the input that the explorer has not read
        with suppress(TimeoutError):
            await asyncio.wait_for(process.communicate(), LEAVE_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()  # read to the end: otherwise the wait does not end


class GuardedConnection(RequestHandler):  # type: ignore[misc,unused-ignore]
    """A connection that is closed if no request comes soon, or if too many wait; it reads no body to its end."""

    __slots__ = ("_waiting",)

    def __init__(self, server: Any, waiting: dict[GuardedConnection, None], loop: asyncio.AbstractEventLoop) -> None:
        """`waiting` are the connections whose first request has not come, the oldest first."""
        super().__init__(server, loop=loop, lingering_time=0.0, logger=_LOG)
        self._waiting = waiting
        make_request = self._request_factory
        assert make_request is not None

        def begin_request(*parts: Any) -> Any:
            """Stop waiting when the first request comes."""
            self._waiting.pop(self, None)
            return make_request(*parts)

        self._request_factory = begin_request

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start waiting for a request. If too many connections wait, close the oldest."""
        super().connection_made(transport)
        self._waiting[self] = None
        if len(self._waiting) > WAITING_MAX:
            next(iter(self._waiting))._close_waiting()
        self._loop.call_later(HEAD_S, self._close_waiting)

    def _close_waiting(self) -> None:
        if self in self._waiting and self.transport is not None:
            del self._waiting[self]  # now: connection_lost comes later, when others may have connected
            self.transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop waiting for a request."""
        self._waiting.pop(self, None)
        super().connection_lost(exc)


def _without_traceback(record: logging.LogRecord) -> bool:
    record.exc_info = None
    return True


_LOG = logging.getLogger("hwexplorer.serve")
_LOG.addFilter(_without_traceback)


class Gate(Server):  # type: ignore[misc,unused-ignore]
    """The server. It requires the token, limits the number of clients, and refuses sockets of other pages."""

    def __init__(
        self, words: Sequence[str], host: str, port: int, public_url: str, readable: Sequence[str], clients: int
    ) -> None:
        """`words` is the command that opens an explorer, which may read the files `readable`."""
        super().__init__("", host, port, "hwexplorer", public_url.rstrip("/"))
        self._words, self._readable, self._most = words, readable, clients
        self._sockets: set[web.WebSocketResponse] = set()
        self._token = secrets.token_urlsafe(32)
        parts = urlsplit(self.public_url)
        self._origin = f"{parts.scheme}://{parts.netloc}"

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        return f"{self.public_url}/?token={self._token}"

    def run(self) -> None:
        """Serve until interrupted. Raises OSError if it cannot listen."""
        with suppress(KeyboardInterrupt):
            asyncio.run(self._serve())

    async def _serve(self) -> None:
        runner = web.AppRunner(await self._make_app(), access_log=None, shutdown_timeout=LEAVE_S)
        await runner.setup()
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
        waiting: dict[GuardedConnection, None] = {}
        listener = await loop.create_server(
            lambda: GuardedConnection(runner.server, waiting, loop), self.host, self.port, backlog=128
        )
        try:
            print(f"{self.address}\n(anyone with this address has access; ctrl+c stops the server)", flush=True)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass  # by SIGTERM or ctrl+c
        finally:
            listener.close()
            await runner.cleanup()

    async def _make_app(self) -> web.Application:
        app = web.Application(middlewares=[self._check_token])
        aiohttp_jinja2.setup(app, loader=jinja2.FileSystemLoader(self.templates_path))
        behind = f"/{self._token}"
        app.add_routes(
            [
                web.get("/", self.handle_index),
                web.get(f"{behind}/ws", self.handle_websocket, name="websocket"),
                web.get(f"{behind}/download/{{key}}", self.handle_download, name="download"),
                web.static(f"{behind}/static", self.statics_path, name="static"),
            ]
        )
        app.on_response_prepare.append(self._protect)
        app.on_shutdown.append(self.on_shutdown)
        return app

    async def on_shutdown(self, app: web.Application) -> None:
        """Close the sockets of all clients, which ends their explorers."""
        await asyncio.gather(*(socket.close() for socket in self._sockets))

    @web.middleware
    async def _check_token(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse a request without the token: in the query of the page, or as the first part of any other path."""
        given = request.query.get("token", "") if request.path == "/" else "".join(request.path.split("/", 2)[1:2])
        if not hmac.compare_digest(given.encode(errors="replace"), self._token.encode()):
            raise web.HTTPForbidden(text="Open the address that hwexplorer serve printed: it ends in ?token=...\n")
        return await handler(request)

    async def _protect(self, request: web.Request, response: web.StreamResponse) -> None:
        """Set headers that forbid caching, framing and loading from other origins, and hide the token in referrers."""
        ours, socket = self._origin, "ws" + self._origin.removeprefix("http")
        content_policy = (
            f"default-src 'none'; script-src {ours} 'unsafe-inline'; style-src {ours} 'unsafe-inline'; "
            f"font-src {ours}; img-src {ours} data:; connect-src {socket}; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        response.headers.update(
            {
                "Content-Security-Policy": content_policy,
                "X-Frame-Options": "DENY",
                "X-Content-Type-Options": "nosniff",
                "Referrer-Policy": "no-referrer",
                "Cross-Origin-Opener-Policy": "same-origin",
                "Cache-Control": "no-store",
            }
        )

    def _check_origin(self, request: web.Request) -> None:
        """Refuse sockets of other pages: any page can open one to this machine."""
        allowed = {self._origin}
        if is_loopback(self.host):
            allowed |= {f"http://{name}:{self.port}" for name in ("localhost", "127.0.0.1", "[::1]")}
        if request.headers.get("Origin", "") not in allowed:
            raise web.HTTPForbidden(text="opened from another page\n")

    def _check_room(self) -> None:
        if len(self._sockets) >= self._most:
            raise web.HTTPServiceUnavailable(
                text=f"All {self._most} places are taken: try again later"
                " (hwexplorer serve --clients N allows more).\n",
                headers={"Retry-After": "60"},
            )

    async def handle_index(self, request: web.Request) -> web.Response:
        """Return the page, without resources from other origins."""
        self._check_room()
        page = await super().handle_index(request)
        assert isinstance(page, web.Response)  # rendered from a template, not streamed
        own = f"{self.public_url}/"  # keep the style sheet, and drop a font that would be fetched from elsewhere
        text = _LINK.sub(lambda link: link[0] if link[1].startswith(own) else "", page.text or "")
        page.text = text.replace("</head>", _HEAD.replace("DOWNLOADS", f"{own}{self._token}/download/"))
        return page

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Run an explorer for as long as the browser is connected."""
        self._check_origin(request)
        self._check_room()
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=MESSAGE_MAX)
        explorer = ServedExplorer(self._words, self._readable, socket, self)
        width, height = (to_int(request.query.get(name, ""), 80) for name in ("width", "height"))
        self._sockets.add(socket)
        try:
            await socket.prepare(request)
            await explorer.start(width, height)
            await self._process_messages(socket, explorer)
        except (AssertionError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
            await socket.close(code=1007, message=b"not understood")
        finally:
            await asyncio.shield(explorer.stop())
            self._sockets.discard(socket)
        return socket


def _clamp(size: Any, limits: tuple[int, int]) -> int:
    """Return a size from a browser, kept within limits. Raises TypeError if it is not an integer."""
    if not isinstance(size, int):
        raise TypeError("a size is a whole number")
    return min(max(size, limits[0]), limits[1])


def _limit_memory(pid: int) -> None:
    """Limit the memory of another process to MEMORY_MAX, if the system supports it."""
    import resource

    if hasattr(resource, "prlimit"):
        with suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
