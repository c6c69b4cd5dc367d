"""The panes of a graph, one row each: a new one is a module that yields what it shows, and its row here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inspector.present.content import Content
from inspector.present.detail import why_missing
from inspector.present.documents import message_document
from inspector.present.spans import message_page
from inspector.present.tables import message_table
from inspector.readers.graph import CompiledGraph
from inspector.tui.threads import attempt

from . import code, fusion, fx, ir, kernels
from .pane import Build, Pane, Reading, View, nothing

FX_AFTER = View("fx-after", "FX after post-grad passes")
IR_AFTER = View("ir-after", "IR after fusion")
CODE = View("code", "output_code.py")
KERNELS = View("kernels", "Kernels", "table")

PANES: tuple[Pane, ...] = (
    Pane(
        *("fx", "1", "FX", "FX: the graph before and after the post-grad passes", "fx-after"),
        (View("fx-before", "FX before post-grad passes"), FX_AFTER),
        fx.contents,
        {"fx_graph_readable.py": "fx-before", "fx_graph_transformed.py": "fx-after"},
    ),
    Pane(
        *("ir", "2", "IR", "IR: the schedule before and after fusion", "ir-after"),
        (View("ir-before", "IR before fusion"), IR_AFTER),
        ir.contents,
        {"ir_pre_fusion.txt": "ir-before", "ir_post_fusion.txt": "ir-after"},
    ),
    Pane(
        *("code", "3", "Code", "Code: launches, and output_code.py", "code"),
        (View("launches", "Launches", "table"), CODE),
        code.contents,
        {"output_code.py": "code"},
    ),
    Pane(
        *("kernels", "4", "Kernels", "Kernels: each kernel and its source", "kernels"),
        (KERNELS, View("result", "Result"), View("source", "Kernel source")),
        kernels.contents,
    ),
    Pane(
        *("all", "5", "All", "All: FX, IR, code and kernels at once", "fx-after"),
        (FX_AFTER, IR_AFTER, CODE, KERNELS),
        nothing,
    ),
    Pane(
        *("fusion", "6", "Fusion", "Fusion: lanes, what was missed, and why", "lanes"),
        (
            View("lanes", "Fusion", "table"),
            View("why", "Why", "page"),
            View("missed", "Missed fusions", "table"),
            View("boxes", "Neighbours", "page"),
            View("sides", "Before | after fusion", "table"),
        ),
        fusion.contents,
        letter="fusion",
        late=True,
    ),
    Pane(
        *("explain", "7", "Explain", "Explain: the findings about this graph", "findings"),
        (View("findings", "Explain", "page"),),
        nothing,
        letter="explain",
    ),
)

BY_ID = {pane.id: pane for pane in PANES}
VIEWS = {view.id: view for pane in PANES for view in pane.views}
VIEW_OF_FILE = {file: (pane.id, view) for pane in PANES for file, view in pane.files.items()}
"""(pane, view) that shows a graph's file."""

_CODE_FILE = "output_code.py"
"""What a view is made from that shows no file itself."""


@dataclass(frozen=True, slots=True)
class Part:
    """One view's content, ready; `view` is the widget's id, or that with `-outline` behind it."""

    view: str
    content: Content


def load_parts(reading: Reading, late: bool = False) -> Iterator[Part]:
    """What the panes show, those that are `late` or the others; a failure shows in place of its view."""
    for pane in PANES:
        for view, build in pane.contents(reading) if pane.late == late else ():
            yield Part(view, _content(VIEWS[view.removesuffix("-outline")], pane, reading.graph, build))


def _content(view: View, pane: Pane, graph: CompiledGraph, build: Build) -> Content:
    content = attempt(build)
    if isinstance(content, Exception):
        return placeholder(view, f"{view.title} cannot be shown.\n{type(content).__name__}: {content}")
    file = next((file for file, shown_by in pane.files.items() if shown_by == view.id), _CODE_FILE)
    return content or placeholder(view, absent(graph, file))


def placeholder(view: View, message: str) -> Content:
    """A remark in place of a view's content, in the form that the view can draw."""
    if view.form == "table":
        return message_table(view.title, message)
    return (message_page if view.form == "page" else message_document)(view.title, message)


def absent(graph: CompiledGraph, name: str) -> str:
    """In place of a view: which file is not here, the likely reason, and the remedy."""
    if not graph.files:
        return "An empty folder: this graph had nothing to compute,\nso torch wrote no files for it."
    reason = why_missing(name, graph.files, graph.run.kind).replace("; ", ";\n")
    return f"{name} is not here:\n{reason}"
