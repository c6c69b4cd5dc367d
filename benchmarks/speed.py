"""Speed, as ratios of commands run in turn on the same machine.

    python benchmarks/speed.py [ROUNDS]

1. `inspector open` to the first painted screen, beside `python -c "import torch"`; largest run of tests/data.
2. A full parse (every artifact, links included), beside tlparse on the same run's trace.
3. A key press to the screen at rest, on the largest graph, through Textual's Pilot.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from pathlib import Path

from common import PYTHON, corpus, describe, machine, pairs, ratio

FULL_PARSE = """
import sys
from inspector.analysis.linkage import link_graph
from inspector.readers.run import Run
run = Run.open(sys.argv[1])
run.facts()
for graph in run.graphs:
    graph.runnable()
    link_graph(graph.artifacts())
"""

FIRST_PAINT = """
import sys
from inspector.tui.app import run_tui
run_tui(sys.argv[1], exit_after_paint=True, headless=True)
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


def first_paint(run: Path, rounds: int) -> None:
    ours, torch = pairs([PYTHON, "-c", FIRST_PAINT, str(run)], [PYTHON, "-c", "import torch"], rounds)
    print(
        f"first paint of {run.name}: {describe(ours)}; import torch: {describe(torch)}; "
        f"ratio {ratio(ours, torch)}"
    )


def full_parse(run: Path, rounds: int) -> None:
    tlparse = Path(PYTHON).with_name("tlparse")
    trace = next((run / "trace").glob("*.log"))
    out = run.parent / "tlparse-out"
    theirs = [str(tlparse), str(trace), "-o", str(out), "--overwrite", "--no-browser"]
    ours, other = pairs([PYTHON, "-c", FULL_PARSE, str(run)], theirs, rounds)
    print(
        f"full parse of {run.name}: {describe(ours)}; tlparse: {describe(other)}; ratio {ratio(ours, other)}"
    )


async def key_presses(run: Path) -> None:
    from inspector.tui.app import InspectorApp

    app = InspectorApp(str(run))
    times: list[float] = []
    async with app.run_test(size=(160, 50)) as pilot:
        await app.workers.wait_for_complete()
        await pilot.press("enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        for key in KEYS:
            start = time.perf_counter()
            await pilot.press(key)
            times.append(1000 * (time.perf_counter() - start))
            await app.workers.wait_for_complete()
            await pilot.pause()
    print(
        f"key press in {run.name}: median {statistics.median(times):.1f} ms, largest {max(times):.1f} ms "
        f"of {len(times)} keys (Pilot's own waits included)"
    )


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    print(machine())
    with corpus() as folder:
        h200 = folder / "h200-torch2.11"
        first_paint(h200 / "llama_infer", rounds)
        for name in ("llama_infer", "resnet50"):
            full_parse(h200 / name, rounds)
        for name in ("llama_infer", "resnet50"):
            asyncio.run(key_presses(h200 / name))


if __name__ == "__main__":
    main()
