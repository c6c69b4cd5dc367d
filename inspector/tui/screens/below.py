"""Below a kernel: its source and the stages that it was lowered to, two at a time, three where there is room,
ruled by one selection."""

from __future__ import annotations

from functools import partial

from textual.app import ComposeResult
from textual.containers import Container

from inspector.analysis.lowering import LoweredKernel
from inspector.lowered import lowered_kernels
from inspector.model.links import Related
from inspector.present.below import (
    FACTS,
    SOURCE,
    StageDocument,
    documents,
    origin_text,
    selected,
    toggled,
)
from inspector.present.documents import Document, message_document
from inspector.tui.actions import bindings
from inspector.tui.navigation import BelowTarget
from inspector.tui.widgets.code_view import CodeView
from inspector.tui.widgets.lines_view import LinesView

from .base import InspectorScreen

_WIDE, _WIDEST = 120, 150
_LAST = ("asm", "sass", "amdgcn", "ptx", "llir", "ttgir", "ttir", "stages")
"""What is shown beside the source at first: the last stage there is, and beside that the one before."""


class BelowScreen(InspectorScreen):
    """The cursor's line leads through the kernel's source to the rows of the others, and to the model."""

    BINDINGS = bindings("below")

    def __init__(self, target: BelowTarget) -> None:
        super().__init__()
        self.graph, self.call = target.graph, target.call
        self.session = target.session
        self._item: LoweredKernel | None = None
        self._documents: dict[str, Document] = {}
        reading = message_document("Below", "reading…")
        names = ("below-left", "below-right", "below-third")
        self._views = tuple(CodeView(reading, id=name) for name in names)
        self._names = [SOURCE] * len(names)
        self._related: Related | None = None

    def compose_body(self) -> ComposeResult:
        with Container(id="panes"):
            yield from self._views

    def on_mount(self) -> None:
        self.headline.show(f"{self.graph.ident} · launch {self.call.index} · {self.call.kernel}")
        self._arrange()
        self.call_after_refresh(self.start, self._read, "read", partial(self.failed, "stages cannot be read"))

    def _read(self) -> None:
        items = lowered_kernels(self.session.run, [self.graph], str(self.call.index))
        self.call_later(self._ready, items[0] if items else None, documents(items[0]) if items else {})

    def _ready(self, item: LoweredKernel | None, made: dict[str, Document]) -> None:
        self._item, self._documents = item, made
        if item is None:
            for view in self._views:
                view.show(message_document("Below", "This launch calls a library: it has no stages here."))
            return
        stages = [name for name in _LAST if name in made]
        self._names = [SOURCE, *stages[:2], FACTS, FACTS][: len(self._views)]
        for view, name in zip(self._views, self._names, strict=True):
            view.show(made[name])
        self._select(self._views[0])

    # -- the selection

    def on_lines_view_moved(self, message: LinesView.Moved) -> None:
        self._select(message.view)

    def _select(self, view: LinesView[Document]) -> None:
        """The rows of all sides that are of the same line of the source as the cursor's."""
        ref = view.ref
        related = self._related = selected(int(ref.key)) if ref is not None else None
        for other in self._views:
            rows = other.content.rows_of(related) if related is not None else ()
            if other is view:
                other.mark(rows)
            else:
                other.reveal(rows)
        if self._item is not None:
            nothing = "no line of the source: the compiler made it, or it is no instruction"
            self.bar.remark(origin_text(self._item, int(ref.key)) if ref is not None else nothing)

    # -- keys

    @property
    def _part(self) -> int:
        """The place of the view that has the keys."""
        return next((place for place, view in enumerate(self._views) if view.has_focus), 0)

    def on_resize(self) -> None:
        self._arrange()

    def _arrange(self) -> None:
        width = self.app.size.width
        wide = width >= _WIDE
        self.query_one("#panes", Container).styles.layout = "horizontal" if wide else "vertical"
        self._views[-1].display = width >= _WIDEST
        for view in self._views[1:]:
            view.styles.margin = (0, 0, 0, 1 if wide else 0)
        if self.focused is None or not self.focused.display:
            self.focus_view(self._views[0])

    def action_other_part(self) -> None:
        shown = [place for place, view in enumerate(self._views) if view.display]
        self.focus_view(self._views[shown[(shown.index(self._part) + 1) % len(shown)]])

    def action_step_stage(self, direction: int) -> None:
        """The stage before or behind it, in the view that has the keys; the selection stays."""
        if not self._documents:
            return
        part, names = self._part, list(self._documents)
        position = names.index(self._names[part]) if self._names[part] in names else 0
        self._names[part] = names[(position + direction) % len(names)]
        view, related = self._views[part], self._related
        view.show(self._documents[self._names[part]])
        if related is not None:
            view.reveal(view.content.rows_of(related))

    def action_open(self) -> None:
        """What repeats at the cursor: all of its rounds, or the first alone again."""
        view, name = self._views[self._part], self._names[self._part]
        shown = view.content
        if self._item is None or not isinstance(shown, StageDocument) or view.cursor not in shown.blocks:
            self.bar.remark("no block that repeats is folded here")
            return
        self._documents[name], row = toggled(self._item, name, shown, view.cursor)
        view.show(self._documents[name], row)

    def action_step_mark(self, direction: int) -> None:
        if not self._views[self._part].step_mark(direction):
            self.bar.remark("nothing here belongs to the selection")
