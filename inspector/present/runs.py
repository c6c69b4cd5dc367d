"""The runs below a folder, and the page that is shown where there are none."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from inspector.frozen import dataclass
from inspector.model.history import PastRun
from inspector.readers.locate import ARCHIVE_SUFFIXES, KIND_TEXT, Located
from inspector.units import count, duration

from .history import past_span, when
from .rows import RunRow
from .spans import Span
from .tables import Column, Row, Table

# run_2026_11_21_05_02_24_145134-pid_12661
_RUN_FOLDER = re.compile(r"^run_(\d{4})_(\d\d)_(\d\d)_(\d\d)_(\d\d)_")

START_PAGE = """\
There is no captured run in this folder or below.

c captures a program from here, and d asks whether this machine can
compile. Or capture one outside, then look at it:

    inspector capture -o RUN -- python train.py
    inspector open RUN

Any command can stand behind the two dashes, torchrun and -m included.

What you already have can be opened as it is:

    inspector open torch_compile_debug      of TORCH_COMPILE_DEBUG=1
    inspector open model__0_inference_0.0   one compiled graph
    inspector open TRACE_FOLDER             TORCH_TRACE logs
    inspector open run.tar.gz               an archive of any of these
"""


@dataclass(frozen=True, slots=True)
class RunSketch:
    """What is cheap to know of a run: its manifest, the names of its folders, and what a steady call took.
    `started` is in seconds since the epoch. `error` in place of all."""

    torch_version: str | None = None
    graphs: int | None = None
    started: float = 0.0
    error: str = ""
    calls: PastRun | None = None


Order = Literal["newest", "slowest against eager", "longest call", "name"]
ORDERS: tuple[Order, ...] = get_args(Order)


def runs_table(
    located: Sequence[Located], below: str, sketches: Mapping[str, RunSketch], order: Order = "newest"
) -> Table:
    """The runs in an order; those of which nothing is known yet, or never will be, come last."""
    rows = [_row(run, below, sketches.get(run.shown)) for run in _sorted(located, sketches, order)]
    columns = (
        Column("run", shrinks=True, least=27),
        Column("compiled is", optional=True),
        Column("a call", right=True, optional=True),
        Column("in eager", right=True, rank=2, optional=True),
        Column("mode", rank=4, shrinks=True, least=22, optional=True),
        Column("graphs", right=True, rank=3),
        # Only a capture's manifest tells the version without reading a graph.
        Column("torch", rank=6, optional=True),
        Column("kind", rank=5),
        Column("when", rank=1),
    )
    told = f" · {order} first" if order != "name" else ""
    return Table(f"Runs · {len(rows)}{told}", columns, tuple(rows))


def _sorted(located: Sequence[Located], sketches: Mapping[str, RunSketch], order: Order) -> Sequence[Located]:
    if order == "name":
        return located

    def key(run: Located) -> float:
        sketch = sketches.get(run.shown)
        calls = sketch.calls if sketch is not None else None
        if sketch is None:
            return math.inf
        if order == "newest":
            return -sketch.started
        if calls is None:
            return math.inf
        faster, ms = calls.faster, calls.compiled_ms
        value = faster if order == "slowest against eager" else -ms if ms is not None else None
        return math.inf if value is None else value

    return sorted(located, key=key)


def _row(run: Located, below: str, sketch: RunSketch | None) -> Row:
    name = Span(_plain_name(run, below), "accent")
    kind = Span("archive" if run.listed else KIND_TEXT[run.kind].removeprefix("a "), "dim")
    if sketch is None:
        return Row(RunRow(run.shown), (name, *(Span("…", "dim") for _ in range(6)), kind, Span("…", "dim")))
    calls = sketch.calls or PastRun("capture", 0.0, "")
    unknown = "not compared" if calls.compiled_ms is not None else ""
    compared = past_span(calls)
    cells = (
        name,
        Span(sketch.error, "warn") if sketch.error else compared if compared.text else Span(unknown, "dim"),
        Span(duration(calls.compiled_ms) if calls.compiled_ms is not None else ""),
        Span(duration(calls.eager_ms) if calls.eager_ms is not None else "", "dim"),
        Span(calls.label),
        Span(count(sketch.graphs), "" if sketch.graphs else "dim"),
        Span(sketch.torch_version or ""),
        kind,
        Span(when(sketch.started), "dim"),
    )
    return Row(RunRow(run.shown), cells)


def _plain_name(run: Located, below: str) -> str:
    """Of an archive without its suffix, and of the many that are called `run` their folder alone."""
    name = short_name(run.shown, below)
    if run.listed:
        name = next((name[: -len(end)] for end in ARCHIVE_SUFFIXES if name.lower().endswith(end)), name)
        folder, stem = os.path.split(name)
        name = folder if folder and stem == "run" else name
    return name


def short_name(shown: str, below: str) -> str:
    """The run's path without the folder that was opened."""
    name = os.path.relpath(shown, below) if below else os.path.normpath(shown)
    return (
        shown if name.startswith("..") else os.path.basename(os.path.abspath(shown)) if name == "." else name
    )


def time_of_folder(name: str) -> float:
    """When torch made `run_2026_11_21_05_02_24_145134-pid_1`, by this machine's clock; 0 of another name."""
    match = _RUN_FOLDER.match(name)
    if match is None:
        return 0.0
    year, month, day, hour, minute = map(int, match.groups())
    try:
        return time.mktime((year, month, day, hour, minute, 0, 0, 0, -1))
    except (OverflowError, ValueError):
        return 0.0
