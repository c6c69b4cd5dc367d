"""The panes of a graph, one row each: a new one is a function that yields what it shows, and its row.

What a pane is shown by is imported when it is built: the first screen, which lists the panes, has none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from inspector.frozen import dataclass

from .attempt import attempt
from .pane import Build, Contents, Pane, Reading, View

if TYPE_CHECKING:
    from inspector.present.content import Content
    from inspector.readers.graph import CompiledGraph

FX_AFTER = View("fx-after", "FX after post-grad passes")
IR_AFTER = View("ir-after", "IR after fusion")
CODE = View("code", "output_code.py")
KERNELS = View("kernels", "Kernels", "table")


def _fx(reading: Reading) -> Contents:
    from inspector.present.fx import fx_document

    graph = reading.graph

    def before() -> Content | None:
        return fx_document(fx, "fx_before") if (fx := graph.fx("readable")) else None

    def after() -> Content | None:
        if (fx := graph.fx("transformed")) is not None:
            return fx_document(fx, "fx_after")
        # Of vLLM's pieces there is the traced graph alone.
        return before() if graph.run.kind == "vLLM cache" else None

    yield "fx-after", after
    yield "fx-before", before


def _ir(reading: Reading) -> Contents:
    for side, (view, stage, other) in enumerate((("ir-before", "pre", "post"), ("ir-after", "post", "pre"))):
        yield f"{view}-outline", partial(_ir_outline, reading.graph, side)
        yield view, partial(_ir_text, reading.graph, stage, other)


def _ir_text(graph: CompiledGraph, stage: str, other: str) -> Content | None:
    from inspector.present.ir import ir_document

    schedule = graph.schedule(stage)
    return ir_document(schedule, graph.schedule(other)) if schedule else None


def _ir_outline(graph: CompiledGraph, side: int) -> Content | None:
    from inspector.present.ir import ir_outlines

    return ir_outlines(graph.schedule("pre"), graph.schedule("post"))[side]


def _code(reading: Reading) -> Contents:
    from inspector.present.code import code_document, launches_table

    graph = reading.graph
    yield "code", lambda: code_document(code) if (code := graph.code()) else None
    yield "launches", lambda: launches_table(code) if (code := graph.code()) else None


def _kernels(reading: Reading) -> Contents:
    """Each kernel or launch; its result and source follow the cursor (`kernels_pane`)."""
    from inspector.present.code import kernels_table

    graph = reading.graph
    yield "kernels", lambda: kernels_table(code, None, {}) if (code := graph.code()) else None


def _fusion(reading: Reading) -> Contents:
    """What was missed, and both sides; lanes, reasons and boxes follow the cursor (`screens.fusion`)."""
    from .fusion import missed, sides

    yield "missed", lambda: missed(reading.fusion)
    yield "sides", lambda: sides(reading.fusion)


def _nothing(_reading: Reading) -> Contents:
    """For a pane whose views are filled by the selection, or by other panes."""
    yield from ()


PANES: tuple[Pane, ...] = (
    Pane(
        *("fx", "1", "FX", "FX: the graph before and after the post-grad passes", "fx-after"),
        (View("fx-before", "FX before post-grad passes"), FX_AFTER),
        _fx,
        {"fx_graph_readable.py": "fx-before", "fx_graph_transformed.py": "fx-after"},
    ),
    Pane(
        *("ir", "2", "IR", "IR: the schedule before and after fusion", "ir-after"),
        (View("ir-before", "IR before fusion"), IR_AFTER),
        _ir,
        {"ir_pre_fusion.txt": "ir-before", "ir_post_fusion.txt": "ir-after"},
    ),
    Pane(
        *("code", "3", "Code", "Code: launches, and output_code.py", "code"),
        (View("launches", "Launches", "table"), CODE),
        _code,
        {"output_code.py": "code", "output_code.cpp": "code"},
    ),
    Pane(
        *("kernels", "4", "Kernels", "Kernels: each kernel and its source", "kernels"),
        (KERNELS, View("result", "Result"), View("source", "Kernel source")),
        _kernels,
    ),
    Pane(
        *("all", "5", "All", "All: FX, IR, code and kernels at once", "fx-after"),
        (FX_AFTER, IR_AFTER, CODE, KERNELS),
        _nothing,
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
        _fusion,
        letter="fusion",
        late=True,
    ),
    Pane(
        *("explain", "7", "Explain", "Explain: the findings about this graph", "findings"),
        (View("findings", "Explain", "page"),),
        _nothing,
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
    from inspector.present.documents import message_document
    from inspector.present.spans import message_page
    from inspector.present.tables import message_table

    if view.form == "table":
        return message_table(view.title, message)
    return (message_page if view.form == "page" else message_document)(view.title, message)


def absent(graph: CompiledGraph, name: str) -> str:
    """In place of a view: which file is not here, or says nothing, the likely reason, and the remedy."""
    from inspector.present.detail import why_missing

    if not graph.files:
        return "An empty folder: this graph had nothing to compute,\nso torch wrote no files for it."
    if name in graph.files:
        label = graph.label(name)
        told = dict.fromkeys(item.message for item in graph.artifacts().problems if item.path == label)
        return "\n".join((f"{name} is here, but shows nothing:", *told))
    reason = why_missing(name, graph.files, graph.run.kind).replace("; ", ";\n")
    return f"{name} is not here:\n{reason}"
