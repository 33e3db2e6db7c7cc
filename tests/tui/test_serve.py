"""The explorer served to a browser: there, only from this machine, only to its own pages."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from hwexplorer.cli import main
from hwexplorer.commands.serve import is_loopback

aiohttp = pytest.importorskip("aiohttp")
pytest.importorskip("textual_serve")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the served explorer runs, and writes what is exported."""
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    words = [sys.executable, "-m", "hwexplorer", "serve", "resnet18@b8", "--port", str(number)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    start = monotonic()
    while monotonic() - start < 20:
        with socket.socket() as there:
            if there.connect_ex(("127.0.0.1", number)) == 0:
                break
        sleep(0.1)
    yield number
    process.terminate()
    process.wait(10)


async def seen(port: int, wanted: bytes) -> bytes:
    """What comes over the socket until the wanted bytes are there."""
    found = b""
    async with aiohttp.ClientSession() as session:
        url = f"ws://127.0.0.1:{port}/ws?width=120&height=40"
        async with session.ws_connect(url, headers={"Origin": f"http://127.0.0.1:{port}"}) as web:
            while wanted not in found:
                message = await asyncio.wait_for(web.receive(), 20)
                if message.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
                    break
                found += message.data if isinstance(message.data, bytes) else message.data.encode()
    return found


async def test_a_page_and_the_screen_in_it(port: int) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/") as answer:
        assert answer.status == 200
        page = await answer.text()
        assert f"ws://127.0.0.1:{port}/ws" in page
        assert "https://" not in page
        assert f"http://127.0.0.1:{port}/static/css/xterm.css" in page
    assert b"resnet18" in await seen(port, b"resnet18")


async def test_a_browser_shows_it_and_takes_keys(port: int, folder: Path, tmp_path: Path) -> None:
    from tests.tui import browser

    if browser.PROGRAM is None:
        pytest.skip("no Chromium here")
    async with browser.opened(f"http://127.0.0.1:{port}/", tmp_path / "profile") as page:
        await page.until("document.body && document.body.classList.contains('-first-byte')")
        await page.type(":export served.json\r")
        async with asyncio.timeout(20):
            while not (folder / "served.json").exists():
                await asyncio.sleep(0.1)
        (tmp_path / "served.png").write_bytes(await page.picture())
    assert '"resnet18"' in (folder / "served.json").read_text()
    assert (tmp_path / "served.png").stat().st_size > 30_000  # an empty page takes a tenth of that


@pytest.mark.parametrize("origin", ["", "http://evil.example", "null"])
async def test_other_pages_are_refused(port: int, origin: str) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"ws://127.0.0.1:{port}/ws", headers={"Origin": origin})
        assert refused.value.status == 403
        async with session.get(f"http://127.0.0.1:{port}/", headers={"Host": f"evil.example:{port}"}) as answer:
            assert answer.status == 403


@pytest.mark.parametrize(
    ("host", "here"), [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("box", False)]
)
def test_what_is_this_machine(host: str, here: bool) -> None:
    assert is_loopback(host) is here


def test_wrong_requests_are_one_line(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "resnet5O"]) == 2
    assert "did you mean resnet50" in capsys.readouterr().err
    words = [sys.executable, "-m", "hwexplorer", "serve", "--port", str(port)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "cannot listen" in done.stderr
    assert "Traceback" not in done.stderr
