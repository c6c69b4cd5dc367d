"""One process's calls and events: within bounds, and written so that a killed program leaves them too."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from .between import Between
from .guard import Guards
from .load import Loads
from .sink import Sink
from .state import States

STEADY_LIMIT = 1000
COLD_LIMIT = 200
CALLABLE_LIMIT = 256
EVENT_LIMIT = 500
COUNTER_LIMIT = 300
SIZES_LIMIT = 200
_OTHERS = "other sizes"
"""Of calls with further ones (inspector/analysis/steady.py: OTHERS)."""
REASON_LIMIT = 2000
GAPS_LIMIT = 3
"""Between two calls, the longest of all: what a program does once, such as to time eager for comparison."""
SWITCHES = ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE")
FIRST_WRITE_SECONDS = 2.0
"""The line is written after so many seconds, then after twice as many, and so on, and at exit."""


class Entry:
    """One result of ``torch.compile``, or one line of the program that runs a backward pass."""

    def __init__(self, name: str, location: str | None, order: int, kind: str = "call") -> None:
        self.name = name
        self.location = location
        self.order = order
        self.kind = kind
        self.mode: str | None = None
        self.backend: str | None = None
        self.forget()

    def forget(self) -> None:
        """As if it had never been called."""
        self.calls = 0
        self.first_ms: float | None = None
        self.total_ms = 0.0
        self.setup_ms = 0.0
        self.cold_ms: list[float] = []
        self.cold_index: list[int] = []
        self.cold_left_out = 0
        self.steady_ms: deque[float] = deque(maxlen=STEADY_LIMIT)
        self.sizes: dict[Any, int] = {}
        self.steady_sizes: deque[int] = deque(maxlen=STEADY_LIMIT)
        """Of each steady call the number of its sizes."""
        self.steady_faults: deque[int] = deque(maxlen=STEADY_LIMIT)
        self.device: str | None = None
        self.grad: bool | None = None
        self.training: bool | None = None
        self.states: list[int] = []
        self.span: list[int] = []
        """Its first and its newest call, counted over all calls of this process."""

    def add(self, milliseconds: float, cold: bool, sizes: Any = (), faults: int = 0) -> bool:
        """One outermost call that has returned; `sizes` as calls.sizes_of has them, `faults` of pages. Gives
        whether it counts as a cold one, as the first does."""
        if self.calls == 0:
            self.first_ms = milliseconds
            cold = True
        if not cold:
            self.steady_ms.append(milliseconds)
            self.steady_faults.append(faults)
            if sizes not in self.sizes and len(self.sizes) >= SIZES_LIMIT:
                # With gradients or without is still told of these.
                sizes = (*sizes[:1], _OTHERS)
            self.steady_sizes.append(self.sizes.setdefault(sizes, len(self.sizes)))
        elif len(self.cold_ms) < COLD_LIMIT:
            self.cold_ms.append(milliseconds)
            self.cold_index.append(self.calls)
        else:
            self.cold_left_out += 1
        self.calls += 1
        self.total_ms += milliseconds
        return cold

    def as_json(self) -> dict[str, Any]:
        return {
            **vars(self),
            "steady_ms": [round(value, 6) for value in self.steady_ms],
            "sizes": [[_sizes_text(part) for part in sizes] for sizes in self.sizes],
            "steady_sizes": list(self.steady_sizes),
            "steady_faults": list(self.steady_faults),
        }


class Journal:
    """Every entry and event of this process. Made by `journal_of`; a forked child begins an empty one."""

    def __init__(self, guards: Guards, sink: Sink) -> None:
        self._guards = guards
        self._sink = sink
        self._exit = guards.make("the line of calls")
        self.entries: list[Entry] = []
        self.states = States()
        self._state_guard = guards.make("the state of torch")
        self.loads = Loads()
        self._load_guard = guards.make("the load of the machine")
        self.between = Between(guards)
        self.also: dict[str, Callable[[], Any]] = {}
        """What other hooks add to the line: key -> what makes its value."""
        self._clear()
        atexit.register(self._at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._clear)

    def _at_exit(self) -> None:
        self._exit.run(self.write)

    def _clear(self) -> None:
        # What was compiled before a fork keeps its entry: the child may call it too.
        for entry in self.entries:
            entry.forget()
        self._events: dict[tuple[str, str, str | None, str | None, bool], int] = {}
        self.worked = 0
        """Grows whenever Dynamo or Inductor works: a call during which it grew is a cold one."""
        self.noted = 0
        """Calls so far, of all entries."""
        self.loads.clear()
        self.between.clear()
        self._since = self._until = self._inside = self._passed = 0
        """When the newest cold call ended and the newest of all, in nanoseconds; what those between took, all
        of ours included, and how many they are."""
        self._gaps: list[tuple[int, dict[str, int]]] = []
        """The longest times between two of them, and which lines were seen in each."""
        self._next_write = 0.0
        self._pause = FIRST_WRITE_SECONDS

    def entry(self, name: str, location: str | None, kind: str = "call") -> Entry:
        """A new entry; beyond the limit the newest of the same name and place is shared."""
        if len(self.entries) >= CALLABLE_LIMIT:
            for entry in reversed(self.entries):
                if (entry.name, entry.location, entry.kind) == (name, location, kind):
                    return entry
        order = sum(1 for entry in self.entries if entry.kind == kind)
        entry = Entry(name, location, order, kind)
        self.entries.append(entry)
        return entry

    def event(
        self, kind: str, reason: str, frame: str | None, location: str | None, *, raised: bool = False
    ) -> None:
        """Count one event; equal ones are one. More than EVENT_LIMIT different ones are not kept.

        `raised`: it reached the program as an exception.
        """
        key = (kind, reason.strip()[:REASON_LIMIT], frame, location, raised)
        if key in self._events or len(self._events) < EVENT_LIMIT:
            self._events[key] = self._events.get(key, 0) + 1

    def note(self, entry: Entry) -> None:
        """Before a call of its entry; before the first, second, third, fifth, ninth... how torch is set, and
        from the first steady call on how busy the machine is."""
        self.between.ends()
        entry.span = [entry.span[0] if entry.span else self.noted, self.noted]
        self.noted += 1
        if not entry.calls & (entry.calls - 1):
            self._state_guard.run(self.states.note, entry.states)
            if entry.calls:
                self._load_guard.run(self.loads.take)

    def passed(self, opened: int, closed: int, cold: bool) -> None:
        """After a timed call that had the program's thread from `opened` to `closed`."""
        lines = self.between.taken()
        if cold:
            self._since, self._inside, self._passed, self._gaps = closed, 0, 0, []
            self.between.forget()
        else:
            self._inside += closed - opened
            self._passed += 1
            self._gaps.append((opened - self._until, lines))
            self._gaps.sort(key=itemgetter(0))
            for _, usual in self._gaps[:-GAPS_LIMIT]:
                self.between.add(usual)
            del self._gaps[:-GAPS_LIMIT]
        self._until = closed
        self.between.begins(not cold)

    def state(self) -> Any:
        """The position of the state of the moment among `states`; None where it cannot be read."""
        return self._state_guard.run(self.states.seen)

    def write_now_and_then(self) -> None:
        """After a call: write if the time has come."""
        now = time.monotonic()
        if not self._next_write:
            self._next_write = now + self._pause
        elif now >= self._next_write:
            self._pause *= 2
            self._next_write = now + self._pause
            self.write()

    def write(self) -> None:
        """Append everything so far as one line; the newest line of a file counts."""
        if not self.entries and not self._events:
            return
        if self.loads.as_json():
            self._load_guard.run(self.loads.take)
        self._sink.write(
            {
                "kind": "calls",
                "callables": [entry.as_json() for entry in self.entries],
                "events": [
                    {
                        "kind": kind,
                        "reason": reason,
                        "frame": frame,
                        "location": location,
                        "raised": raised,
                        "count": count,
                    }
                    for (kind, reason, frame, location, raised), count in self._events.items()
                ],
                "counters": counters(),
                **{name: make() for name, make in self.also.items()},
                **(self._state_guard.run(self.states.as_json) or {}),
                "load": self.loads.as_json(),
                "steady_span": {
                    "calls": self._passed,
                    "span_ms": (self._until - self._since - sum(gap for gap, _ in self._gaps)) / 1e6,
                    "inside_ms": self._inside / 1e6,
                    "looks": sum(self.between.seen.values()),
                    "lines": self.between.as_json(),
                },
                "disabled": next((name for name in SWITCHES if os.environ.get(name) == "1"), None),
                **self._sink.describe(),
                "faults": self._guards.faults,
            }
        )


def journal_of(guards: Guards, sink: Sink) -> Journal:
    """This process's journal, made on first use."""
    if "journal" not in sink.shared:
        sink.shared["journal"] = Journal(guards, sink)
    journal: Journal = sink.shared["journal"]
    return journal


def counters() -> dict[str, int]:
    """torch's own (torch/_dynamo/utils.py: counters), flattened: "stats.unique_graphs"."""
    utils: Any = sys.modules.get("torch._dynamo.utils")
    flat: dict[str, int] = {}
    for group, values in dict(getattr(utils, "counters", None) or {}).items():
        for name, value in dict(values).items():
            if isinstance(value, int) and len(flat) < COUNTER_LIMIT:
                flat[f"{group}.{name}"[:200]] = value
    return flat


def _sizes_text(part: Any) -> str:
    """`8x512` of a tensor's sizes, `8` of one and `scalar` of none; words as they are."""
    return ("x".join(map(str, part)) or "scalar") if isinstance(part, tuple) else str(part)[:40]
