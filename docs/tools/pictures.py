"""Writes the pictures of the docs from the sample runs: ``make pictures``.

Each is a screen as Textual exports it, without the fonts that its SVG would fetch from elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

from inspector.tui.app import InspectorApp

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
_STORIES = ROOT / "sample_runs" / "stories"


@dataclass(frozen=True)
class Picture:
    """A screen: what is opened, the keys pressed then, and its size in cells."""

    name: str
    run: Path
    keys: tuple[str, ...] = ()
    size: tuple[int, int] = (120, 35)


_GPU = _STORIES / "transformer_gpu" / "run.tar.xz"
PICTURES = (
    Picture("first-screen", _GPU),
    Picture("findings", _GPU, ("e",)),
    Picture("kernels", _GPU, ("4", "j", "j")),
    Picture("fusion", _GPU, ("f",)),
    Picture("after", _STORIES / "transformer_gpu" / "run_reduce_overhead.tar.xz"),
    Picture("waste", _STORIES / "bicubic_of_mish" / "run.tar.xz", ("e",)),
)


async def drawn(picture: Picture) -> str:
    """The screen as SVG."""
    app = InspectorApp(str(picture.run))
    async with app.run_test(size=picture.size) as pilot:
        await _settle(pilot)
        for key in picture.keys:
            await pilot.press(key)
            await _settle(pilot)
        return without_fonts(app.export_screenshot(title="inspector"))


async def _settle(pilot: Pilot[None]) -> None:
    """Waits until all threads have reported and what they reported is drawn; each may start others."""
    for _ in range(4):
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()


def without_fonts(svg: str) -> str:
    """The picture in the reader's own monospaced font, with names that are the same each time."""
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: Fira Code", "font-family: Fira Code, DejaVu Sans Mono, Menlo, Consolas", svg)
    return re.sub(r"terminal-\d+", "terminal", svg)


def main(names: list[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    # Paths are shown as they are from there.
    os.chdir(ROOT)
    for picture in PICTURES:
        if not names or picture.name in names:
            (FOLDER / f"{picture.name}.svg").write_text(asyncio.run(drawn(picture)), encoding="utf-8")
            print(picture.name)


if __name__ == "__main__":
    main(sys.argv[1:])
