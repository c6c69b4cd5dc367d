"""Speed, as ratios of commands run in turn on the same machine.

    python benchmarks/speed.py [ROUNDS]

1. `inspector open` to the first painted screen, beside `python -c "import torch"`; largest run of tests/data.
   The same until the first screen is complete: explained, drawn, with the history of the run's command.
2. `inspector summary --json`, which reads every artifact, log and trace, beside tlparse on the trace alone.
3. A key press to the screen at rest, on the largest graph, through Textual's Pilot.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from compileall import compile_dir
from pathlib import Path
from typing import Any

from common import PYTHON, ROOT, corpus, describe, machine, pairs, ratio

FIRST_PAINT = """
import sys
from inspector.tui.app import run_tui
run_tui(sys.argv[1], exit_after_paint=True, headless=True)
"""

COMPLETE = """
import sys
from inspector.tui.app import InspectorApp
from inspector.tui.navigation import RunTarget
from inspector.tui.screens.first import FirstScreen

class Watched(FirstScreen):
    def show_session(self):
        super().show_session()
        if self._past is not None:
            self.call_after_refresh(self.app.exit)

class Opened(InspectorApp):
    def get_default_screen(self):
        return Watched(RunTarget(self.located[0]))

Opened(sys.argv[1]).run(headless=True)
"""

KEYS = (
    "j",
    "j",
    "ctrl+d",
    "G",
    "g",
    "2",
    "j",
    "ctrl+d",
    "G",
    "g",
    "3",
    "j",
    "ctrl+d",
    "G",
    "g",
    "4",
    "j",
    "j",
    "1",
)


def beside_torch(what: str, script: str, run: Path, rounds: int) -> None:
    ours, torch = pairs([PYTHON, "-c", script, str(run)], [PYTHON, "-c", "import torch"], rounds)
    print(f"{what}: {describe(ours)}; import torch: {describe(torch)}; ratio {ratio(ours, torch)}")


def first_screens(largest: Path, rounds: int) -> None:
    beside_torch(f"first paint of {largest.name}", FIRST_PAINT, largest, rounds)
    for archive in sorted((ROOT / "sample_runs").rglob("run*.tar.xz")):
        name = archive.relative_to(ROOT / "sample_runs")
        beside_torch(f"first screen complete, {name}", COMPLETE, archive, rounds)
    beside_torch(f"first screen complete, {largest.name}", COMPLETE, largest, rounds)


def full_parse(run: Path, rounds: int) -> None:
    tlparse = Path(PYTHON).with_name("tlparse")
    trace = next((run / "trace").glob("*.log"))
    out = run.parent / "tlparse-out"
    summary = [str(Path(PYTHON).with_name("inspector")), "summary", "--json", str(run)]
    theirs = [str(tlparse), str(trace), "-o", str(out), "--overwrite", "--no-browser"]
    ours, other = pairs(summary, theirs, rounds)
    print(
        f"full parse of {run.name}: {describe(ours)}; tlparse: {describe(other)}; ratio {ratio(ours, other)}"
    )


async def key_presses(run: Path) -> None:
    """From a key's event to the next frame that Textual writes, as the person at the keyboard sees it."""
    from textual import events

    from inspector.tui.app import InspectorApp

    frames: list[float] = []

    class Watched(InspectorApp):
        def _display(self, screen: Any, renderable: Any) -> None:
            super()._display(screen, renderable)
            frames.append(time.perf_counter())

    app = Watched(str(run))
    times: list[float] = []
    async with app.run_test(size=(160, 50)) as pilot:
        for key in ("", "1"):
            if key:
                await pilot.press(key)
            await app.workers.wait_for_complete()
            await pilot.pause(0.5)
        for key in KEYS:
            frames.clear()
            start = time.perf_counter()
            app.post_message(events.Key(key, key if len(key) == 1 else None))
            while not frames and time.perf_counter() - start < 1:
                await asyncio.sleep(0.001)
            if frames:
                times.append(1000 * (frames[0] - start))
            await app.workers.wait_for_complete()
            await pilot.pause(0.2)
    print(
        f"key press to frame in {run.name}: median {statistics.median(times):.1f} ms, "
        f"largest {max(times):.1f} ms of {len(times)} keys"
    )


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    # As an installation by pip leaves it: torch's modules have their bytecode, too.
    compile_dir(str(ROOT / "inspector"), quiet=1)
    print(machine())
    with corpus() as folder:
        h200 = folder / "h200-torch2.11"
        first_screens(h200 / "llama_infer", rounds)
        for name in ("llama_infer", "resnet50"):
            full_parse(h200 / name, rounds)
        for name in ("llama_infer", "resnet50"):
            asyncio.run(key_presses(h200 / name))


if __name__ == "__main__":
    main()
