"""The explorer served to a browser: to whoever has its address, to its own pages, and within limits."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hwexplorer.cli import main
from tests.sampling import measure_slowdown

aiohttp = pytest.importorskip("aiohttp")
pytest.importorskip("textual_serve")

from hwexplorer.commands import _web_gate as web  # noqa: E402
from hwexplorer.tui.terminals.browser_driver import Driver  # noqa: E402

Socket = Any  # aiohttp.ClientWebSocketResponse
CLIENTS = 3
PATIENCE_S = 90  # on a machine where much else runs


class Served:
    """A server that runs, and its address as it printed it."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process, self.address = process, address
        self.base, _, self.token = address.partition("/?token=")
        self.port = int(self.base.rpartition(":")[2])

    @asynccontextmanager
    async def client(self, size: str = "width=120&height=40", **headers: str) -> AsyncIterator[Socket]:
        url = f"{self.base}/{self.token}/ws?{size}".replace("http", "ws", 1)
        asked = {"Origin": self.base, **headers}
        async with aiohttp.ClientSession() as session, session.ws_connect(url, headers=asked, max_msg_size=0) as there:
            yield there

    def explorers(self) -> list[int]:
        """Processes that the server started and that have not ended."""
        return [
            int(pid) for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        ]


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Served]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "hwexplorer", "serve", "resnet18@b8", "--port", str(port), *options]
    environment = {**os.environ, "HOME": str(folder.parent)}
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment
    )
    assert process.stdout is not None
    try:
        yield Served(process, process.stdout.readline().strip())
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=15)
        process.kill()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server runs; a stranger's model lies beside it."""
    base = tmp_path_factory.mktemp("served")
    (base / "here").mkdir()
    (base / "evil.py").write_text(
        f"open({str(base / 'ran')!r}, 'w').close()\nimport torch\n\ndef make():\n    return torch.nn.Linear(16, 16)\n"
    )
    return base / "here"


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with serving(folder, "--clients", str(CLIENTS)) as found:
        yield found


@pytest.fixture(autouse=True)
def empty(served: Served) -> Iterator[None]:
    """What a test leaves behind is gone before the next: an explorer ends with its client."""
    yield
    assert eventually(lambda: served.process.poll() is not None or not served.explorers())


def eventually(true: Callable[[], bool], patience: float = PATIENCE_S) -> bool:
    start = monotonic()
    while not true():
        if monotonic() - start > patience:
            return False
        sleep(0.05)
    return True


async def until(there: Socket, wanted: str) -> str:
    """What comes over the socket until this is in it; ends early where the socket does."""
    found = b""
    while not re.search(wanted, shown(found)):
        message = await asyncio.wait_for(there.receive(), PATIENCE_S)
        if message.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
            return f"{shown(found)} closed {there.close_code}"
        found += message.data if isinstance(message.data, bytes) else message.data.encode()
    return shown(found)


def shown(data: bytes) -> str:
    return re.sub(rb"\x1b(\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])", b"", data).decode(errors="replace")


async def command(there: Socket, line: str, wanted: str) -> str:
    await there.send_json(["stdin", f":{line}\r"])
    return await until(there, wanted)


async def answer(url: str, **headers: str) -> tuple[int, str, Any]:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as got:
        return got.status, await got.text(errors="replace"), got.headers


# --- who gets in ------------------------------------------------------------------------------------------


async def test_a_page_and_the_screen_in_it(served: Served) -> None:
    status, page, headers = await answer(served.address)
    assert status == 200
    assert f"ws://127.0.0.1:{served.port}/{served.token}/ws" in page
    assert "https://" not in page
    assert (await answer(f"{served.base}/{served.token}/static/css/xterm.css"))[0] == 200
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert (headers["Referrer-Policy"], headers["X-Content-Type-Options"]) == ("no-referrer", "nosniff")
    async with served.client() as there:
        assert "resnet18" in await until(there, "resnet18")


@pytest.mark.parametrize(
    "path", ["/", "/?token=", "/?token=X", "/ws", "/X/ws", "/X/static/js/textual.js", "/X/download/a"]
)
async def test_without_the_token_there_is_nothing(path: str, served: Served) -> None:
    status, text, headers = await answer(served.base + path.replace("X", served.token[:-1]))
    assert status == 403
    assert "?token=" in text
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize("origin", ["", "http://evil.example", "null"])
async def test_other_pages_are_refused(served: Served, origin: str) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with served.client(Origin=origin):
            pass
    assert refused.value.status == 403


async def test_a_client_too_many_is_told(served: Served) -> None:
    async with served.client(), served.client(), served.client() as last:
        await until(last, "resnet18")
        status, text, _ = await answer(served.address)
        assert status == 503
        assert f"All {CLIENTS} places are taken" in text
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with served.client():
                pass
        assert refused.value.status == 503
        assert len(served.explorers()) == CLIENTS
    assert eventually(lambda: not served.explorers())
    async with served.client() as there:
        await until(there, "resnet18")


# --- what a client may do ---------------------------------------------------------------------------------


NOT_ALLOWED = (
    "model ../evil.py:make 1x16",
    "state '..%2Fevil.py%3Amake(1x16)'",
    "model resnet18:x=1.onnx",
    "roofline -o out.txt",
    "save monday",
    "load last",
    "roofline --devices-dir ..",
    "validate --data ../evil.py",
    "model hf:..",
    "image_size 97",
)


async def test_nothing_of_this_machine_is_touched(served: Served, folder: Path) -> None:
    async with served.client() as there:
        await until(there, "resnet18")
        for batch, line in enumerate(NOT_ALLOWED, 10):
            await command(there, f"batch {batch}", f"batch {batch} vs ")  # what is said then is of this line
            assert "not allowed" in await command(there, line, "not allowed"), line
        # A verb on the screen is of the model on the screen.
        assert "unexpected word" in await command(there, "capture ../evil.py:make --input 1x16", "unexpected word")
    assert not (folder.parent / "ran").exists()
    assert list(folder.iterdir()) == []


async def test_only_a_connection_without_a_first_request_is_closed(served: Served) -> None:
    """What a slow client still reads is not cut when the time for a first request has passed."""
    asks = f"GET /?token={served.token} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n\r\n".encode()
    asked_in, asked = await asyncio.open_connection("127.0.0.1", served.port)
    silent_in, silent = await asyncio.open_connection("127.0.0.1", served.port)
    asked.write(asks)
    assert (await asked_in.readline()).startswith(b"HTTP/1.1 200")
    silent.write(asks[:20])
    await asyncio.sleep(web.HEAD_S + 0.5)
    with suppress(ConnectionError):
        assert await silent_in.read() == b""
    asked.write(asks)
    async with asyncio.timeout(PATIENCE_S):
        assert b"HTTP/1.1 200" in await asked_in.readuntil(b"HTTP/1.1 200")
    for writer in (asked, silent):
        writer.close()


async def test_connections_that_ask_nothing_are_few(served: Served) -> None:
    """Many that come at once: the oldest leave until as many are left as may wait."""
    there = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(web.WAITING_MAX + 100)]
    closed = [asyncio.ensure_future(reader.read()) for reader, _ in there]
    await asyncio.sleep(1.0)
    assert [one.done() for one in closed] == [True] * 100 + [False] * web.WAITING_MAX
    for _, writer in there:
        writer.close()
    await asyncio.gather(*closed, return_exceptions=True)


async def test_an_export_is_a_download(served: Served, folder: Path) -> None:
    async with served.client() as there:
        await until(there, "resnet18")
        for name, start in (("tree.json", b'{\n  "schema"'), ("../../x.svg", b"<svg")):
            told = await command(there, f"export {name}", r'"deliver_file_start", ?"[^"]*"')
            key = re.search(r'"deliver_file_start", ?"([^"]*)"', told)[1]  # type: ignore[index]
            url = f"{served.base}/{served.token}/download/{key}"
            async with aiohttp.ClientSession() as session, session.get(url) as got:
                assert (got.status, (await got.read())[: len(start)]) == (200, start)
                assert got.headers["Content-Disposition"].startswith("attachment; filename=")
                assert "/" not in got.headers["Content-Disposition"]
            assert (await answer(url))[0] == 404  # once
    assert list(folder.iterdir()) == []


async def test_packets_of_the_screen_and_of_a_download_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads write packets that are larger than the pipe between them and the server."""
    size, count = 200_000, 10
    reading, writing = os.pipe()
    monkeypatch.setattr(sys, "__stdin__", SimpleNamespace(fileno=lambda: reading))
    monkeypatch.setattr(sys, "__stdout__", SimpleNamespace(fileno=lambda: writing))
    driver = Driver(cast(Any, None))
    with open(reading, "rb", buffering=0) as stream, open(writing, "wb"):
        writers = [
            Thread(target=lambda byte=byte: [driver._write(byte * size) for _ in range(count)], daemon=True)
            for byte in (b"a", b"b")
        ]
        for writer in writers:
            writer.start()
        received = b""
        while len(received) < 2 * count * size:
            received += stream.read(1 << 16)
    assert {received[at : at + size] for at in range(0, len(received), size)} == {b"a" * size, b"b" * size}


async def test_a_browser_shows_it_takes_keys_and_downloads(served: Served, folder: Path, tmp_path: Path) -> None:
    from tests.tui import browser

    if browser.PROGRAM is None:
        pytest.skip("no Chromium here")
    async with browser.opened(served.address, tmp_path / "profile") as page:
        await page.until("document.body && document.body.classList.contains('-first-byte')")
        await page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        await page.type(":export served.json\r")
        async with asyncio.timeout(PATIENCE_S):
            while not (tmp_path / "served.json").exists():
                await asyncio.sleep(0.1)
        (tmp_path / "served.png").write_bytes(await page.picture())
    assert '"resnet18"' in (tmp_path / "served.json").read_text()
    assert (tmp_path / "served.png").stat().st_size > 30_000  # an empty page takes a tenth of that
    assert list(folder.iterdir()) == []


# --- limits -----------------------------------------------------------------------------------------------


async def test_a_terminal_has_a_size_that_fits(served: Served) -> None:
    async with served.client("width=20000&height=20000") as there:
        await until(there, "resnet18")
        (pid,) = served.explorers()
        assert {b"COLUMNS=500", b"ROWS=200"} <= set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
        await there.send_json(["resize", {"width": 20_000, "height": 20_000}])
        await there.send_json(["resize", {"width": -1, "height": 0}])
        await there.send_json(["resize", {"width": 100, "height": 30}])
        await command(there, "batch 4", "b4|batch")
        assert resident(pid) < 400e6


@pytest.mark.parametrize(
    ("sent", "code"),
    [("x" * 100_000, 1009), ('["stdin"', 1007), ("[" * 5000, 1007), ('["resize", {"width": "9"}]', 1007), ("3", 1007)],
    ids=["long", "cut", "nested", "untyped", "number"],
)
async def test_a_message_that_is_none_ends_it(sent: str, code: int, served: Served) -> None:
    async with served.client() as there:
        await there.send_str(sent)
        await until(there, "never")
        assert there.close_code == code


async def test_more_keys_than_it_can_take_end_it(served: Served) -> None:
    async with served.client() as there:
        await until(there, "resnet18")
        (pid,) = served.explorers()
        before = resident(pid), resident(served.process.pid)

        async def flood() -> None:
            with suppress(ConnectionError):
                while not there.closed:
                    await there.send_json(["stdin", "jk" * 10_000])

        flooding = asyncio.create_task(flood())
        await until(there, "never")
        await flooding
        assert resident(served.process.pid) - before[1] < 50e6
        with suppress(FileNotFoundError):
            assert resident(pid) - before[0] < 100e6
    start = monotonic()
    assert eventually(lambda: not served.explorers())
    assert monotonic() - start < web.LEAVE_S / 2 * measure_slowdown()  # it leaves: it is not killed
    async with served.client(), served.client(), served.client():  # its place is free again
        pass


def resident(pid: int) -> float:
    """Bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_the_explorer_and_what_it_runs_end_with_the_client(served: Served) -> None:
    async with served.client() as there:
        await until(there, "resnet18")
        await there.send_json(["stdin", ":validate\r"])
        (pid,) = served.explorers()
        beside = Path(f"/proc/{pid}/task")
        assert eventually(lambda: any(path.read_text() for path in beside.glob("*/children")))
        below = [int(child) for path in beside.glob("*/children") for child in path.read_text().split()]
    assert eventually(lambda: not any(Path(f"/proc/{each}").exists() for each in (pid, *below)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_explorers_end_with_the_server(number: int, folder: Path) -> None:
    with serving(folder) as other:
        async with other.client() as one, other.client() as two:
            await until(one, "resnet18")
            await until(two, "resnet18")
            pids = other.explorers()
            os.kill(other.process.pid, number)
            await until(one, "never")
            await until(two, "never")
        assert len(pids) == 2
        assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


# --- wrong requests ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "here"), [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("box", False)]
)
def test_what_is_this_machine(host: str, here: bool) -> None:
    assert web.is_loopback(host) is here


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["resnet5O"], "did you mean resnet50"),
        (["--host", "0.0.0.0"], "add --public-url with the name that browsers use, e.g. http://"),
        (["--host", "::"], "add --public-url"),
        (["--public-url", "box:8000"], "expected e.g. https://explorer.example or http://box:8000"),
        (["resnet18@i97"], "run hwexplorer capture"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_wrong_requests_are_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", *words]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_port_that_is_taken_is_one_line(served: Served) -> None:
    words = [sys.executable, "-m", "hwexplorer", "serve", "--port", str(served.port)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "cannot listen" in done.stderr
    assert "Traceback" not in done.stderr
