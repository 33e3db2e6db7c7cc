"""A headless Chromium driven over its own protocol: open a page, type, take a picture."""

from __future__ import annotations

import asyncio
import base64
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
START = 60.0  # seconds


class Page:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._numbers = socket, count(1)

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            answer = await asyncio.wait_for(self._socket.receive_json(), START)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    async def value(self, script: str) -> Any:
        found = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
        return found["result"].get("value")

    async def until(self, script: str) -> None:
        """Until a script is true."""
        async with asyncio.timeout(START):
            while not await self.value(script):
                await asyncio.sleep(0.1)

    async def type(self, text: str) -> None:
        for character in text:
            await self.call("Input.dispatchKeyEvent", type="char", text=character)
            await asyncio.sleep(0.02)

    async def picture(self) -> bytes:
        return base64.b64decode((await self.call("Page.captureScreenshot"))["data"])


@asynccontextmanager
async def opened(url: str, profile: Path, size: tuple[int, int] = (1280, 800)) -> AsyncIterator[Page]:
    """A page in a browser of its own, with its profile in a folder that is thrown away."""
    assert PROGRAM is not None
    words = [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
    words += [f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}", "--remote-debugging-port=0"]
    process = subprocess.Popen([*words, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = await _address(profile)
        async with aiohttp.ClientSession() as session, session.ws_connect(address, max_msg_size=0) as socket:
            page = Page(socket)
            await page.call("Page.navigate", url=url)
            yield page
    finally:
        process.terminate()
        process.wait(10)


async def _address(profile: Path) -> str:
    """Where the browser's first tab listens, once it does."""
    told = profile / "DevToolsActivePort"
    async with asyncio.timeout(START), aiohttp.ClientSession() as session:
        while not told.exists() or len(told.read_text().split()) < 2:
            await asyncio.sleep(0.1)
        port = told.read_text().split()[0]
        while True:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                tabs = [tab for tab in await answer.json() if tab["type"] == "page"]
            if tabs:
                return str(tabs[0]["webSocketDebuggerUrl"])
            await asyncio.sleep(0.1)
