"""`inspector web`: served to who has the token, and to nobody else."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

from inspector.cli import cli

SOFTMAX = Path(__file__).parents[1] / "sample_runs" / "softmax" / "run.tar.xz"


@pytest.fixture
def address() -> Iterator[str]:
    """Where a server listens, which is ended afterwards as ctrl+c does."""
    server = subprocess.Popen(
        [sys.executable, "-m", "inspector.cli", "web", str(SOFTMAX)],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert server.stderr is not None
    yield server.stderr.readline().strip()
    server.send_signal(signal.SIGINT)
    assert server.wait(60) == 0
    # Whatever it served is gone with it.
    with pytest.raises(ProcessLookupError):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            os.killpg(server.pid, 0)
            time.sleep(0.1)


async def test_the_address_shows_the_screens_and_any_other_shows_nothing(address: str) -> None:
    match = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/[\w-]{32}/", address)
    assert match, address
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120)) as session:
        for path in ("/", "/ws", "/static/js/textual.js", f"/{'x' * 32}/"):
            async with session.get(match[1] + path) as answer:
                assert answer.status == 404, path
        async with session.get(address) as answer:
            page = await answer.text()
            assert answer.status == 200 and "default-src 'self'" in answer.headers["Content-Security-Policy"]
        (socket_address,) = re.findall(r'data-session-websocket-url="([^"]+)"', page)
        assert socket_address == f"ws{address.removeprefix('http')}ws"
        async with session.ws_connect(f"{socket_address}?width=120&height=40") as socket:
            shown = b""
            while b"Softmax" not in shown and b"softmax" not in shown:
                message = await asyncio.wait_for(socket.receive(), 60)
                assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), shown
                shown += message.data if isinstance(message.data, bytes) else message.data.encode()


async def test_a_real_browser_shows_the_screens_and_fetches_nothing_from_elsewhere(address: str) -> None:
    api = pytest.importorskip("playwright.async_api")
    chromium = shutil.which("chromium") or pytest.skip("no chromium")
    frames, elsewhere = bytearray(), []
    options = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
    ]
    async with api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=options)
        page = await browser.new_page(viewport={"width": 1300, "height": 800})

        def keep(payload: bytes | str) -> None:
            frames.extend(payload if isinstance(payload, bytes) else payload.encode())

        async def wait_for(text: bytes) -> None:
            for _ in range(300):
                if text in frames:
                    return
                await page.wait_for_timeout(100)
            pytest.fail(f"{text!r} never came, but {bytes(frames[-3000:])!r}")

        page.on("websocket", lambda socket: socket.on("framereceived", keep))
        page.on("requestfinished", lambda request: elsewhere.append(request.url))
        await page.goto(address)
        await wait_for(b"kernels")
        await page.mouse.click(600, 400)
        await page.keyboard.press("?")
        await wait_for(b"What can be done here")
        await browser.close()
    assert elsewhere and all(url.startswith(address) for url in elsewhere)


def test_what_cannot_be_opened_or_listened_on_is_said_in_one_line(tmp_path: Path) -> None:
    answer = CliRunner().invoke(cli, ["web", str(tmp_path / "nothing")])
    assert "nothing" in str(answer.exception) and "\n" not in str(answer.exception)
