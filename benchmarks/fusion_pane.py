"""The fusion pane on made-up graphs: how long it takes to open once files are parsed, and a key press.

    python benchmarks/fusion_pane.py

Opening: from the parsed artifacts to the content of lanes and reasons (800 scheduler nodes, 20,000 lines of
log), then the views that are a key away. Keys: from the event to the next frame that Textual writes, in the
lanes of 800 and of 10,000 nodes, with the reasons beside them written anew at each step.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time
from typing import Any

from common import ROOT, corpus, machine

sys.path.insert(0, str(ROOT / "tests"))
import build
from fusion import made_up

from inspector.analysis.linkage import link_graph
from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run
from inspector.readers.run_files import GraphPlace
from inspector.views.fusion import fusion_of, missed, sides

KEYS = ("j", "j", "j", "ctrl+d", "j", "ctrl+d", "G", "k", "ctrl+u", "g", "pagedown", "j", "p", "p", "b", "b")


class MadeUp(CompiledGraph):
    """A graph that has its artifacts without any file."""

    def __init__(self, run: Run, whole: build.GraphArtifacts) -> None:
        super().__init__(run, GraphPlace(whole.name, "inference", whole.ident))
        self._whole = whole

    def artifacts(self) -> build.GraphArtifacts:
        return self._whole

    def runnable(self) -> None:
        return None

    def fx(self, stage: str) -> None:
        return None

    def schedule(self, stage: str) -> Any:
        return self._whole.pre if stage == "pre" else self._whole.post

    def code(self) -> Any:
        return self._whole.code


def opening(nodes: int, lines: int, rounds: int = 7) -> None:
    """Wall and processor time: on a machine with other work only the latter means something."""
    whole = made_up(nodes, lines)
    linkage = link_graph(whole)
    wall, own, later = [], [], []
    for _ in range(rounds):
        gc.collect()
        start, spent = time.perf_counter(), time.process_time()
        fusion = fusion_of(whole, linkage)
        wall.append(1000 * (time.perf_counter() - start))
        own.append(1000 * (time.process_time() - spent))
        spent = time.process_time()
        missed(fusion)
        sides(fusion)
        later.append(1000 * (time.process_time() - spent))
    print(
        f"{nodes} nodes, {lines} lines: lanes and reasons {statistics.median(wall):.0f} ms "
        f"({min(wall):.0f} at best), {statistics.median(own):.0f} ms of processor; misses and both sides "
        f"{statistics.median(later):.0f} ms of processor"
    )


async def keys(run: Run, nodes: int, lines: int) -> None:
    from textual import events

    from inspector.tui.app import InspectorApp
    from inspector.tui.navigation import GraphTarget, Open
    from inspector.tui.replaying import ReplaySession

    frames: list[float] = []

    class Watched(InspectorApp):
        def _display(self, screen: Any, renderable: Any) -> None:
            super()._display(screen, renderable)
            frames.append(time.perf_counter())

    app = Watched(str(run.root))
    session = ReplaySession()
    session.run = run
    times: dict[str, list[float]] = {}
    async with app.run_test(size=(160, 50)) as pilot:
        await app.workers.wait_for_complete()
        app.post_message(Open(GraphTarget(session, MadeUp(run, made_up(nodes, lines)))))
        await pilot.pause(0.2)
        await app.workers.wait_for_complete()
        await pilot.press("f")
        await pilot.pause(0.5)
        for key in KEYS:
            frames.clear()
            start = time.perf_counter()
            app.post_message(events.Key(key, key if len(key) == 1 else None))
            while not frames and time.perf_counter() - start < 2:
                await asyncio.sleep(0.001)
            if frames:
                times.setdefault(key, []).append(1000 * (frames[0] - start))
            await pilot.pause(0.2)
    every = [value for values in times.values() for value in values]
    worst = max(times, key=lambda key: max(times[key]))
    print(
        f"key press to frame, {nodes} nodes: median {statistics.median(every):.1f} ms, "
        f"largest {max(times[worst]):.1f} ms ({worst}) of {len(every)} keys"
    )


def main() -> None:
    print(machine())
    opening(800, 20_000)
    opening(10_000, 0)
    with corpus() as folder:
        run = Run.open(folder / "cpu-torch2.13" / "softmax")
        asyncio.run(keys(run, 800, 20_000))
        asyncio.run(keys(run, 10_000, 0))


if __name__ == "__main__":
    main()
