"""The explorer in a browser: who may come in, and how much each may take.

The page is textual-serve's. Every client has an explorer of its own in a process of its own, which ends with it.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import re
import secrets
import signal
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from urllib.parse import quote, urlsplit

import aiohttp_jinja2
import jinja2
import msgspec
from aiohttp import WSMsgType, web
from textual_serve.server import Server

from hardware.policy import VARIABLE
from hwexplorer import itself
from hwexplorer.output import complain

MESSAGE_MAX = 64 << 10  # bytes of one message from a browser: a page of text pasted
WAITING_MAX = 256 << 10  # bytes of them that the explorer has not taken yet
COLUMNS, ROWS = (20, 500), (5, 200)  # of a terminal: least and most
PACKET_MAX = 32 << 20  # bytes of one packet from an explorer
FILES_MAX = 4  # exported and not fetched yet, of one client
MEMORY_MAX = 1 << 30  # bytes that one explorer may allocate
HEARTBEAT_S = 15.0  # a browser that answers no ping for so long is gone
LEAVE_S = 8.0  # from the wish that an explorer leaves to its end: more than it takes itself (hwexplorer/signals.py)
CLOSE_S = 2.0  # for a browser to answer that it closes
DRIVER = "hwexplorer.tui.browser:Driver"

_LINK = re.compile(r"<link[^>]*?href=\"(https?://[^\"]*)\"[^>]*>")
# The page has no title, and its terminal takes keys only after a click: as soon as it is there it shall have them.
# A file is a download, not a window that blockers close.
_HEAD = """<title>hwexplorer</title><script>
const waiting = setInterval(() => {
  const keys = document.querySelector(".xterm-helper-textarea");
  if (keys) { keys.focus(); clearInterval(waiting); }
}, 50);
const open = window.open;
window.open = (url, ...rest) => {
  if (!url.includes("/download/")) return open(url, ...rest);
  Object.assign(document.createElement("a"), {href: url, download: ""}).click();
};
</script></head>"""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Client:
    """A browser's socket and the explorer behind it."""

    def __init__(self, socket: web.WebSocketResponse, address: Callable[[str], str]) -> None:
        """`address` makes the URL of a download from its key."""
        self.socket = socket
        self.files: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._address = address
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._is_leaving = False

    async def run(self, words: Sequence[str], environment: Mapping[str, str], has_limit: bool) -> None:
        """Until the browser goes or the explorer is left."""
        self._process = process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            start_new_session=True,  # what it starts goes with it
        )
        if has_limit:
            _limit_memory(process.pid)
        self._tasks = [asyncio.create_task(self._show(process)), asyncio.create_task(self._listen(process))]
        async for message in self.socket:
            if message.type is WSMsgType.TEXT:
                await self._take(message.data)

    async def _show(self, process: asyncio.subprocess.Process) -> None:
        """What the explorer writes, to the browser."""
        assert process.stdout is not None
        with suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
            await process.stdout.readuntil(b"__GANGLION__\n")
            while True:
                head = await process.stdout.readexactly(5)
                size = int.from_bytes(head[1:], "big")
                if size > PACKET_MAX:
                    break
                payload = await process.stdout.readexactly(size)
                if head[:1] == b"D":
                    await self.socket.send_bytes(payload)
                elif head[:1] == b"M":
                    await self._told(json.loads(payload))
        await self.socket.close()
        while await process.stdout.read(MESSAGE_MAX):
            pass  # it could not leave while it waits to be read

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """What the explorer complains of last, to whoever serves, should it fail."""
        assert process.stderr is not None
        told = b""
        while part := await process.stderr.read(4096):
            told = (told + part)[-4096:]
        if (code := await process.wait()) and not self._is_leaving:
            last = told.decode(errors="replace").strip().rpartition("\n")[2]
            complain(f"an explorer ended with {code}: {last[:300]}")

    async def _told(self, message: dict[str, str]) -> None:
        if message["type"] == "file":
            key = secrets.token_urlsafe(16)
            self.files[key] = message["name"], b64decode(message["content"])
            while len(self.files) > FILES_MAX:
                self.files.popitem(last=False)
            await self.socket.send_json(["open_url", {"url": self._address(key), "new_tab": True}])

    async def _take(self, text: str) -> None:
        """A message of the browser, to the explorer; what is none of ours ends it."""
        try:
            message = msgspec.json.decode(text)
        except (msgspec.MsgspecError, RecursionError):
            message = None
        match message:
            case ["stdin", str(keys)]:
                await self._send(b"D", keys.encode(errors="replace"))
            case ["resize", {"width": int(width), "height": int(height)}]:
                size = {"width": _within(width, COLUMNS), "height": _within(height, ROWS)}
                await self._send(b"M", json.dumps({"type": "resize", **size}).encode())
            case ["blur" | "focus" as kind]:
                await self._send(b"M", json.dumps({"type": kind}).encode())
            case ["ping", str(mark)]:
                await self.socket.send_json(["pong", mark[:40]])
            case _:
                await self.socket.close(code=1007, message=b"not understood")

    async def _send(self, kind: bytes, payload: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        # Nobody waits here: whoever waits for the explorer does not see that the browser is gone.
        self._process.stdin.write(kind + len(payload).to_bytes(4, "big") + payload)
        if self._process.stdin.transport.get_write_buffer_size() > WAITING_MAX:
            await self.socket.close(code=1008, message=b"more than the explorer can take")

    async def end(self) -> None:
        """The explorer leaves, or is ended, and whatever it started with it."""
        process = self._process
        if process is None:
            return
        self._is_leaving = True
        if process.returncode is None and process.stdin is not None:
            process.stdin.transport.abort()  # that is how it hears that nobody looks any more
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), LEAVE_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        for task in self._tasks:
            task.cancel()


class Gate(Server):  # type: ignore[misc,unused-ignore]
    """Lets in who has the token, as many as there is room for, and nobody else's page."""

    def __init__(
        self, words: Sequence[str], host: str, port: int, public_url: str, policy: str, clients: int, has_limit: bool
    ) -> None:
        """`words` open an explorer, `policy` is what it may do, and `has_limit` whether its memory is bounded."""
        super().__init__("", host, port, "hwexplorer", public_url.rstrip("/"))
        self._words, self._policy, self._most, self._has_limit = words, policy, clients, has_limit
        self._token = secrets.token_urlsafe(32)
        self._clients: set[Client] = set()
        parts = urlsplit(self.public_url)
        self._origin = f"{parts.scheme}://{parts.netloc}"

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"{self.public_url}/?token={self._token}"

    def run(self) -> None:
        """Until it is interrupted. Raises OSError where it cannot listen."""
        web.run_app(
            self._make_app(),
            host=self.host,
            port=self.port,
            print=self._announce,
            access_log=None,
            shutdown_timeout=LEAVE_S,
        )

    def _announce(self, _: str) -> None:
        """Once it listens."""
        print(f"{self.address}\n(this address is the key: whoever has it gets in; ctrl+c ends it)", flush=True)

    async def _make_app(self) -> web.Application:
        app = web.Application(middlewares=[self._with_token])
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
        await asyncio.gather(*(client.socket.close() for client in self._clients))

    # --- who gets in ----------------------------------------------------------------------------------------

    @web.middleware
    async def _with_token(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The token is in the query of the page, and begins the path of everything that the page asks for."""
        given = request.query.get("token", "") if request.path == "/" else request.path.split("/", 2)[1]
        if not hmac.compare_digest(given.encode(errors="replace"), self._token.encode()):
            raise web.HTTPForbidden(text="Open the address that hwexplorer serve printed: it ends in ?token=...\n")
        return await handler(request)

    async def _protect(self, request: web.Request, response: web.StreamResponse) -> None:
        """Nothing is kept, shown within another page, or fetched from elsewhere; the token is told to nobody."""
        ours, socket = self._origin, "ws" + self._origin.removeprefix("http")
        policy = (
            f"default-src 'none'; script-src {ours} 'unsafe-inline'; style-src {ours} 'unsafe-inline'; "
            f"font-src {ours}; img-src {ours} data:; connect-src {socket}; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        response.headers.update(
            {
                "Content-Security-Policy": policy,
                "X-Frame-Options": "DENY",
                "X-Content-Type-Options": "nosniff",
                "Referrer-Policy": "no-referrer",
                "Cross-Origin-Opener-Policy": "same-origin",
                "Cache-Control": "no-store",
            }
        )

    def _check_origin(self, request: web.Request) -> None:
        """Any web page can open a socket to this machine: only ours may."""
        allowed = {self._origin}
        if is_loopback(self.host):
            allowed |= {f"http://{name}:{self.port}" for name in ("localhost", "127.0.0.1", "[::1]")}
        if request.headers.get("Origin", "") not in allowed:
            raise web.HTTPForbidden(text="opened from another page\n")

    def _check_room(self) -> None:
        if len(self._clients) >= self._most:
            raise web.HTTPServiceUnavailable(
                text=f"All {self._most} places are taken: try again when somebody has left"
                " (hwexplorer serve --clients N makes room for more).\n",
                headers={"Retry-After": "60"},
            )

    # --- what there is --------------------------------------------------------------------------------------

    async def handle_index(self, request: web.Request) -> web.Response:
        self._check_room()
        page = await super().handle_index(request)
        assert isinstance(page, web.Response)  # the template's, whole
        page.text = _LINK.sub(self._if_ours, page.text or "").replace("</head>", _HEAD)
        return page

    def _if_ours(self, link: re.Match[str]) -> str:
        """The style sheet stays; a font that would be fetched from elsewhere goes."""
        return link[0] if link[1].startswith(self.public_url + "/") else ""

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        self._check_origin(request)
        self._check_room()
        socket = web.WebSocketResponse(timeout=CLOSE_S, heartbeat=HEARTBEAT_S, max_msg_size=MESSAGE_MAX)
        download = request.app.router["download"]
        client = Client(socket, lambda key: f"{self.public_url}{download.url_for(key=key)}")
        self._clients.add(client)
        try:
            await socket.prepare(request)
            await client.run(self._words, self._environment(request.query), self._has_limit)
        finally:
            await asyncio.shield(client.end())
            self._clients.discard(client)
        return socket

    async def handle_download(self, request: web.Request) -> web.StreamResponse:
        """An exported file, once."""
        key = request.match_info["key"]
        for client in self._clients:
            if key in client.files:
                name, content = client.files.pop(key)
                disposition = f"attachment; filename*=UTF-8''{quote(name, safe='', errors='replace')}"
                return web.Response(
                    body=content,
                    content_type="application/octet-stream",
                    headers={"Content-Disposition": disposition},
                )
        raise web.HTTPNotFound(text="this file was fetched already, or is none of ours: export it again\n")

    def _environment(self, query: Mapping[str, str]) -> dict[str, str]:
        return {
            **itself.environment(),
            VARIABLE: self._policy,
            "TEXTUAL_DRIVER": DRIVER,
            "TEXTUAL_COLOR_SYSTEM": "truecolor",
            "COLUMNS": str(_within(query.get("width", ""), COLUMNS)),
            "ROWS": str(_within(query.get("height", ""), ROWS)),
            "OPENBLAS_NUM_THREADS": "1",  # as many clients as there are places share the cores
            "OMP_NUM_THREADS": "1",
        }


def _within(size: str | int, limits: tuple[int, int]) -> int:
    """A size that a browser gave, as near to it as may be."""
    wanted = int(size) if isinstance(size, int) or re.fullmatch(r"[0-9]{1,6}", size, re.ASCII) else limits[0]
    return min(max(wanted, limits[0]), limits[1])


def _limit_memory(pid: int) -> None:
    """Allocations of another process beyond the limit fail, where the system can do that."""
    import resource

    if hasattr(resource, "prlimit"):
        with suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))


def is_loopback(host: str) -> bool:
    """Only this machine gets there."""
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
