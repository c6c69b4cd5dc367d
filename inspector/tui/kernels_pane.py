"""The kernels pane of one graph: its launches, and the result and source of the one under the cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inspector.analysis.roofline import Order
from inspector.hardware.datasheets import datasheet_peaks
from inspector.model.code import KernelCall, OutputCode
from inspector.model.peaks import Peaks
from inspector.model.problem import InspectorError
from inspector.model.replay import GraphReplay, KernelReplay
from inspector.present.code import kernel_document, kernels_table
from inspector.present.documents import Document, message_document
from inspector.present.kernel_result import Launch, nodes_of, result_document
from inspector.present.kernels import ORDER_NAMES, ORDERS, replayed_table
from inspector.present.rows import CallRow, KernelRow
from inspector.present.tables import Table
from inspector.present.waste import call_texts
from inspector.readers.graph import CompiledGraph
from inspector.replay.edits import EditFolder, kernel_with_source
from inspector.replay.protocol import TF32_NOTE
from inspector.views.fusion import Fusion
from inspector.views.loading import Links

from .actions import key_text
from .replaying import EditJob, ReplaySession, can_replay
from .widgets.code_view import CodeView
from .widgets.table_view import TableView


class KernelsPane:
    """Rules three views: which table is shown, and what the other two say of its row.

    Before a replay the table has each kernel once; after one it has each launch.
    """

    def __init__(
        self,
        graph: CompiledGraph,
        session: ReplaySession,
        table: TableView,
        result: CodeView,
        source: CodeView,
    ) -> None:
        self.graph = graph
        self.session = session
        self.order: Order = "time"
        self.chosen = False
        """Whether the user has selected anything yet."""
        self.table = table
        self._result = result
        self._source = source
        self._code: OutputCode | None = None
        self._text: Document | None = None
        self._links: Links | None = None
        self._waste: Mapping[int, Sequence[str]] = {}
        self._brief: Mapping[int, Sequence[str]] = {}
        self._source_of: str | None = None
        self._result_of: object = None

    @property
    def replay(self) -> GraphReplay | None:
        """What is known of the graph's launches; None before any was replayed."""
        known = self.session.graphs.get(self.graph.ident)
        return known if known is not None and known.kernels else None

    @property
    def starts_at_top(self) -> bool:
        """Until something is selected, results begin with their first row: it is the one to look at."""
        return self.replay is not None and not self.chosen

    @property
    def kernel(self) -> str | None:
        """The kernel under the cursor."""
        match self.table.key:
            case KernelRow(name):
                return name
            case CallRow(index) if self._code is not None:
                return self._code.calls[index].kernel
        return None

    @property
    def call(self) -> KernelCall | None:
        """The launch under the cursor; for a kernel its first."""
        if self._code is None:
            return None
        if isinstance(key := self.table.key, CallRow):
            return self._code.calls[key.number]
        kernel = self.kernel
        return next((call for call in self._code.calls if call.kernel == kernel), None)

    def read(self, code: OutputCode, text: Document) -> None:
        """The generated code is here."""
        self._code, self._text = code, text
        self.show()

    def linked(self, links: Links) -> None:
        """Launches know their FX nodes."""
        self._links = links
        self.show()

    def fused(self, fusion: Fusion) -> None:
        """Launches know what they do in vain."""
        self._waste, self._brief = call_texts(fusion.report), call_texts(fusion.report, brief=True)
        if self._waste:
            self.show()

    def show(self) -> None:
        """Table and details from what is known now; the cursor stays on its launch or kernel."""
        if self._code is None:
            return
        kernel, call = self.kernel, self.call
        self.table.update(self._table(self._code))
        by_key = self.table.content.by_key
        row = by_key.get(CallRow(call.index)) if call is not None else None
        if row is None and kernel is not None:
            row = by_key.get(KernelRow(kernel))
        if self.starts_at_top:
            row = 0
        if row is not None:
            self.table.move_to(row, tell=False)
        self.show_details()

    def _table(self, code: OutputCode) -> Table:
        links, replay = self._links, self.replay
        if replay is not None:
            linkage, places = (links.linkage, links.places) if links else (None, {})
            return replayed_table(code, replay, self.order, linkage, places, self._brief)
        if links is not None and self._waste:
            return kernels_table(code, links.linkage, links.places, self._brief)
        return links.kernels if links and links.kernels else kernels_table(code, None, {})

    def begin_edit(self, anew: bool) -> EditJob | str:
        """A file to be edited for the launch under the cursor, or why there is none, in a sentence.

        It begins with the newest edit, or with the original where `anew`.
        """
        call = self.call
        if self._code is None or call is None:
            return "no launch here to edit"
        if not can_replay(self.graph):
            return "nothing to edit: it takes an output_code.py on disk"
        try:
            kernel = kernel_with_source(self._code, call.kernel)
            path = EditFolder(self.graph.run, self.graph.ident, kernel).begin(anew)
        except InspectorError as error:
            return str(error)
        return EditJob(self.session.run, self.graph, kernel, call.index, path)

    def row_of(self, kernel: str) -> int | None:
        """The first row that shows `kernel`."""
        by_key = self.table.content.by_key
        if KernelRow(kernel) in by_key or self._code is None:
            return by_key.get(KernelRow(kernel))
        rows = [by_key.get(CallRow(call.index)) for call in self._code.calls if call.kernel == kernel]
        return min((row for row in rows if row is not None), default=None)

    def next_order(self) -> str:
        """Sorts by the next order; what that is, in words."""
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        self.show()
        return f"sorted {ORDER_NAMES[self.order]}"

    # -- the launch under the cursor

    def show_details(self) -> None:
        self._show_source()
        self._show_result()

    def _show_source(self) -> None:
        kernel = self.kernel
        if self._code is None or self._text is None or kernel is None or kernel == self._source_of:
            return
        self._source_of = kernel
        self._source.show(kernel_document(self._code, self._text.lines, kernel))

    def _show_result(self) -> None:
        call, replay = self.call, self.replay
        if self._code is None:
            return
        kernel = self._code.kernel(self.kernel or "")
        edits = self.session.edits(self.graph, kernel) if kernel is not None and kernel.source else ()
        state = (
            call.index if call else self.kernel,
            id(replay),
            id(self._links),
            id(self._waste),
            len(self.session.results),
            len(edits),
        )
        if state == self._result_of:
            return
        self._result_of = state
        if call is None:
            remark = "This kernel is defined, and nothing here launches it."
            self._result.show(message_document("Result", remark if self.kernel else "No kernel."))
            return
        result = next((item for item in replay.kernels if item.call == call.index), None) if replay else None
        times = [item.own_ms for item in replay.kernels if item.own_ms is not None] if replay else []
        self._result.show(
            result_document(
                self._launch(self._code, call),
                result,
                self._peaks(replay, result),
                self.session.history(self.graph.ident, call.index),
                sum(times) or None,
                tf32=replay is not None and TF32_NOTE in replay.notes,
                edits=edits,
                original=kernel_with_source(self._code, kernel.name).source if kernel and edits else "",
                operators=replay.operators if replay else (),
                ncu=self.session.ncu(self.graph.ident, call.index),
            )
        )

    def _peaks(self, replay: GraphReplay | None, result: KernelReplay | None) -> Peaks | None:
        """Those that a replay used; for a kernel checked where its GPU is not, that GPU's datasheet."""
        if result is not None and result.method == "interpreter":
            script = self.graph.runnable()
            return datasheet_peaks(script.devices[0][0]) if script and script.devices else None
        return self.session.peaks(replay.device) if replay else None

    def _launch(self, code: OutputCode, call: KernelCall) -> Launch:
        one, whole = (key_text(self.table.app, id) for id in ("replay", "replay_all"))
        remark = f"not replayed: {one} replays this launch, {whole} all of the graph"
        if not can_replay(self.graph):
            remark = "cannot be replayed: that takes an output_code.py on disk"
        names = self._links.linkage.calls if self._links else ()
        fx = next((link.fx for link in names if link.call == call.index), ())
        nodes = nodes_of(fx, self._links.nodes if self._links else {})
        return Launch(call, len(code.calls), nodes, remark, tuple(self._waste.get(call.index, ())))
