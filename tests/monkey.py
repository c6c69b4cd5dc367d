"""Plays at random with the TUI, on whole runs and on damaged ones: keys, mouse, wheel and other sizes.

    python tests/monkey.py [--seed N] [--events N] [--seconds S] [--log FILE]

A session is its seed: which run, which damage, which events. Nothing may end the program, no reaction may take
more than SLOW_S of processor time, and memory stays where it is after the first sessions. In one of four sessions
questions are answered with yes, too: what is started then is something harmless that prints what lies about and
ends as it likes, or cannot be started. In the others whoever starts a process is a failure.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import asyncio
import errno
import gc
import os
import random
import resource
import shutil
import sys
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fuzzing import ARCHIVES, Fuzzer, _place, confined, in_place_of, next_seed, tell_part, until
from textual import events
from textual.pilot import Pilot, WaitForScreenTimeout

from inspector.model.problem import InspectorError
from inspector.process import Child
from inspector.readers.locate import locate
from inspector.tui import bounded
from inspector.tui import navigation as to
from inspector.tui.actions import KEYS
from inspector.tui.app import InspectorApp
from inspector.tui.replaying import ReplaySession
from inspector.tui.screens.base import InspectorScreen
from inspector.tui.screens.confirm import ConfirmScreen
from inspector.tui.screens.doctor import DoctorScreen

SLOW_S = 2.0
EVENTS = 120
"""Of a session; one in ten is ten times as long."""
_LEAVING = frozenset({"q", "ctrl+q", "ctrl+c"})
_MOVES = (
    "j",
    "k",
    "down",
    "up",
    "enter",
    "tab",
    "shift+tab",
    "escape",
    "left",
    "right",
    "pagedown",
    "pageup",
    "G",
    "g",
)
_PANES = tuple("1234567")
_TYPED = "abz019 /\\[]{}()'\"$#%~.-_=;\x7f\u00e9\u4e2d\u202e"


class Monkey:
    """Failures by class, and what was done until each."""

    def __init__(self, fuzzer: Fuzzer) -> None:
        self.fuzzer = fuzzer
        self.classes: Counter[str] = Counter()
        self.named: Counter[str] = Counter()
        self.screens: Counter[str] = Counter()
        """Events by the screen that they went to."""
        self.events = self.sessions = 0
        self.slowest = 0.0

    def failed(self, seed: int, where: str, detail: str, done: list[str]) -> None:
        self.classes[where] += 1
        if self.classes[where] <= 2:
            print(f"seed {seed}: {where}: {detail}; after {' '.join(done[-12:])}", flush=True)

    def session(self, seed: int, count: int = 0) -> None:
        """`count` events, as many as chance says for 0."""
        rng = random.Random(seed)
        run, paths = self.fuzzer.choose(rng)
        count = count or (EVENTS * 10 if rng.random() < 0.1 else EVENTS)
        against = str(rng.choice(self.fuzzer.runs)) if rng.random() < 0.15 else None
        answers = rng.random() < 0.25
        # The list of the runs below a folder, and below the current one, where there is none.
        if against is None and rng.random() < 0.1:
            run = rng.choice([run.parent, run.parents[1], Path()])
        done: list[str] = []
        self.sessions += 1
        with ExitStack() as stack:
            for path in paths if rng.random() < 0.6 else ():
                other = rng.choice(self.fuzzer.namesakes[path.name])
                stack.enter_context(in_place_of(path, rng, other.read_bytes()))
            for watch in self._watches(seed, done, rng if answers else None):
                stack.enter_context(watch)
            try:
                asyncio.run(self._play(str(run), against, rng, seed, count, done, answers))
            except InspectorError:
                pass
            except WaitForScreenTimeout:
                self.failed(seed, "stuck", "30 s", done)
            except Exception as error:
                self.failed(
                    seed, _place(error), f"{run.name}: {type(error).__name__}: {str(error)[:200]}", done
                )
        gc.unfreeze()
        gc.collect()

    def _watches(self, seed: int, done: list[str], answered: random.Random | None) -> list[Any]:
        """Nothing of the run's is started, and what screens say of failures is heard."""

        def start(command: list[str], **named: Any) -> Any:
            if answered is None:
                self.failed(seed, "started a process", str(command)[:200], done)
                raise OSError("nothing is started here")
            if answered.random() < 0.2:
                raise OSError(errno.EAGAIN, "nothing is started here")
            self.screens["a process"] += 1
            paths = answered.choice(list(self.fuzzer.files.values()))
            script = f"sleep {answered.choice([0, 0, 0.3])}; head -c 100000 $0; exit {answered.choice([0, 1, 139])}"
            return popen(["/bin/sh", "-c", script, str(answered.choice(paths))], **named)

        def say(screen: InspectorScreen, what: str, error: Exception) -> None:
            self.named[f"{what}: {_place(error)}"] += 1
            real(screen, what, error)

        def report(app: Any, error: Exception) -> None:
            self.failed(seed, _place(error), f"{type(error).__name__}: {str(error)[:200]}", done)
            shown(app, error)

        real, shown, popen = InspectorScreen.failed, bounded.report, Child.popen
        return [
            patch.object(bounded, "report", report),
            patch.object(Child, "popen", staticmethod(start)),
            patch.object(InspectorScreen, "failed", say),
            # It examines unasked, which is no run's code.
            patch.object(DoctorScreen, "action_examine", lambda _screen: None),
        ]

    async def _play(
        self,
        path: str,
        against: str | None,
        rng: random.Random,
        seed: int,
        count: int,
        done: list[str],
        answers: bool,
    ) -> None:
        app = InspectorApp(path, against=against)
        async with app.run_test(size=_size(rng)) as pilot:
            await pilot.pause()
            for _ in range(count):
                before = time.process_time()
                if not app.is_running or app._exit:
                    break
                self.screens[type(app.screen).__name__] += 1
                if rng.random() < 0.03 and (target := self._target(app, rng)) is not None:
                    done.append(type(target).__name__)
                    app.post_message(to.Open(target))
                await self._event(pilot, app, rng, done, answers)
                seconds = time.process_time() - before
                self.events += 1
                self.slowest = max(self.slowest, seconds)
                if seconds > SLOW_S:
                    self.failed(seed, f"slow {type(app.screen).__name__}", f"{seconds:.1f} s {path}", done)
                if rng.random() < 0.05:
                    await asyncio.sleep(0.02)
        for job in app.jobs:
            job.end()

    def _target(self, app: InspectorApp, rng: random.Random) -> to.Target | None:
        """Somewhere that few keys lead to, of the run that is open; None where it is not read yet."""
        kind = rng.choice(["below", "below", "below", "diff", "form", "find", "trace", "graph", "explain"])
        if kind == "form":
            return to.CaptureTarget(rng.choice([(), ("python", "a b.py"), ("\x1b[2J\0", "")]))
        if kind == "diff":
            with suppress(InspectorError):
                return to.DiffTarget(*(locate(str(rng.choice(self.fuzzer.runs))) for _ in range(2)))
        session = getattr(app.screen, "session", None)
        if not isinstance(session, ReplaySession) or not session.is_open:
            return None
        if kind in ("find", "trace", "explain"):
            query = rng.choice(["", "e", "(", "buf0", "[0-9]"])
            targets: dict[str, to.Target] = {
                "find": to.FindTarget(session, query),
                "trace": to.TraceTarget(session.run),
            }
            return targets.get(kind, to.ExplainTarget(session))
        if not session.run.graphs:
            return None
        graph = rng.choice(session.run.graphs)
        code = graph.code()
        if code is None or kind == "graph":
            return to.GraphTarget(session, graph, "code", ("code", rng.choice([1, 40, 10**9])))
        return to.BelowTarget(session, graph, rng.choice(code.calls)) if code.calls else None

    async def _event(
        self, pilot: Pilot[Any], app: InspectorApp, rng: random.Random, done: list[str], answers: bool
    ) -> None:
        kind = rng.random()
        width, height = app.screen.size
        place = (rng.randrange(max(1, width)), rng.randrange(max(1, height)))
        if kind < 0.72 or not width * height:
            key = _key(rng)
            if isinstance(app.screen, ConfirmScreen) and (key == "y" or rng.random() < 0.4):
                key = "y" if answers else "n"
            done.append(key)
            await pilot.press(key)
        elif kind < 0.84:
            done.append(f"click{place}")
            await pilot.click(offset=place, times=rng.choice([1, 1, 2]))
        elif kind < 0.94:
            wheel = rng.choice([events.MouseScrollDown, events.MouseScrollUp, events.MouseMove])
            done.append(f"{wheel.__name__}{place}")
            await pilot._post_mouse_events([wheel], offset=place)
        else:
            size = _size(rng)
            done.append(f"resize{size}")
            await pilot.resize_terminal(*size)


def _size(rng: random.Random) -> tuple[int, int]:
    return rng.choice([(80, 24), (160, 50), (120, 40), (rng.randrange(1, 260), rng.randrange(1, 90))])


def _key(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.04:
        return "escape"
    if kind < 0.3:
        return rng.choice(_MOVES)
    if kind < 0.42:
        return rng.choice(_PANES)
    if kind < 0.9:
        return rng.choice([key for entry in KEYS for key in entry.keys if key not in _LEAVING])
    return rng.choice(_TYPED)


def resident() -> int:
    """MB of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--events", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--log", type=Path, help="a line for each part; goes on where its last one ends")
    parser.add_argument("--note", default="", help="what was played with, for the log")
    given = parser.parse_args()
    first, folder = next_seed(given.seed, given.log), confined("monkey-")
    for name in ("EDITOR", "VISUAL", "DISPLAY", "WAYLAND_DISPLAY"):
        os.environ.pop(name, None)
    os.environ["EDITOR"] = "true"
    here = folder / "here"
    memory: list[int] = []
    started = told = time.monotonic()
    try:
        monkey = Monkey(Fuzzer(folder, ARCHIVES, quick=True))
        seed, over = first, until(given.seconds)
        while monkey.events < given.events and not over():
            here.mkdir()
            os.chdir(here)
            monkey.session(seed)
            os.chdir(folder)
            shutil.rmtree(here)
            seed += 1
            if time.monotonic() - told > 30:
                told = time.monotonic()
                memory.append(resident())
        memory.append(resident())
    finally:
        os.chdir("/")
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.monotonic() - started
    slow = sum(count for where, count in monkey.classes.items() if where.startswith("slow"))
    crashes = sum(monkey.classes.values()) - slow
    line = (f"{first:>9} to {seed - 1:>9} {monkey.sessions:>7,} {monkey.events:>8,} {seconds:>7,.0f} {crashes:>5} {slow:>5} "
            f"{monkey.slowest:>6.1f} s  {' '.join(map(str, memory[:: max(1, len(memory) // 6)]))}  {given.note}")  # fmt: skip
    print("seeds                   sessions   events seconds  ends  slow  slowest  MB at intervals")
    counters = {"": monkey.classes, "said on the screen: ": monkey.named, "events on ": monkey.screens}
    tell_part(line, counters, given.log)
    return 1 if monkey.classes else 0


if __name__ == "__main__":
    sys.exit(main())
