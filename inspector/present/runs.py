"""The runs below a folder, and the page that is shown where there are none."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inspector.readers.locate import KIND_TEXT, Located
from inspector.units import count

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
    """What is cheap to know of a run: its manifest and the names of its folders. `error` in place of all."""

    torch_version: str | None = None
    graphs: int | None = None
    date: str = ""
    error: str = ""


def runs_table(located: Sequence[Located], below: str, sketches: Mapping[str, RunSketch]) -> Table:
    rows = []
    for run in located:
        sketch = sketches.get(run.shown)
        name = Span(short_name(run.shown, below), "accent")
        kind = KIND_TEXT[run.kind].removeprefix("a ")
        if sketch is None:
            cells = (name, Span(kind, "dim"), *(Span("…", "dim") for _ in range(3)))
        else:
            cells = (
                name,
                Span(sketch.error or kind, "dim"),
                Span(sketch.torch_version or ""),
                Span(count(sketch.graphs), "" if sketch.graphs else "dim"),
                Span(sketch.date, "dim"),
            )
        rows.append(Row(RunRow(run.shown), cells))
    columns = (
        Column("run", shrinks=True, least=24),
        Column("kind", rank=3),
        # Only a capture's manifest tells the version without reading a graph.
        Column("torch", rank=2, optional=True),
        Column("graphs", right=True),
        Column("date", rank=1),
    )
    return Table(f"Runs · {len(rows)}", columns, tuple(rows))


def short_name(shown: str, below: str) -> str:
    """The run's path without the folder that was opened."""
    name = os.path.relpath(shown, below) if below else os.path.normpath(shown)
    return (
        shown if name.startswith("..") else os.path.basename(os.path.abspath(shown)) if name == "." else name
    )


def date_of_folder(name: str) -> str:
    """`2026-11-21 05:02` from torch's folder name; empty where it is none."""
    match = _RUN_FOLDER.match(name)
    return "{}-{}-{} {}:{}".format(*match.groups()) if match else ""
