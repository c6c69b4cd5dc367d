"""One compiled graph: FX, IR, code and kernels in panes, ruled by one selection."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal

from inspector.model.links import Ref, Related
from inspector.present.chain import Chain
from inspector.present.content import Content
from inspector.present.documents import Document
from inspector.present.fx import with_waste
from inspector.present.identity import run_name
from inspector.present.spans import Page
from inspector.present.tables import Table
from inspector.present.waste import node_texts
from inspector.readers.text import keep
from inspector.tui.actions import Action, bindings, bindings_of
from inspector.tui.kernels_pane import KernelsPane
from inspector.tui.layout import LOWER, arrange, halves, next_step, shown
from inspector.tui.navigation import BelowTarget, GraphTarget, Open
from inspector.tui.replaying import EditJob
from inspector.tui.widgets.bars import PaneTabs
from inspector.tui.widgets.code_view import CodeView
from inspector.tui.widgets.lines_view import LinesView
from inspector.tui.widgets.table_view import TableView
from inspector.tui.widgets.toned_view import TonedView
from inspector.views.fusion import Fusion
from inspector.views.loading import Links
from inspector.views.pane import Reading, View
from inspector.views.panes import BY_ID, PANES, VIEWS, Part, load_parts, placeholder

from .base import InspectorScreen, Place
from .explaining import Findings
from .findings import FindingsPane
from .fusion import FusionPane
from .replays import Replays

if TYPE_CHECKING:
    from inspector.tui.destinations import Destination

_WIDE = 120


class GraphScreen(InspectorScreen):
    """Views fill as a thread reads; the selection works as soon as everything is linked."""

    own_actions: ClassVar[tuple[Action, ...]] = tuple(
        Action(f"pane('{pane.id}')", pane.letter, pane.about, "graph", fixed=(pane.key,)) for pane in PANES
    )
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(own_actions), *bindings("graph", "fusion")]

    def __init__(self, target: GraphTarget) -> None:
        super().__init__()
        self.session = target.session
        self.evidence = Findings(self, self.session)
        self.replays = Replays(self, self.session, self.evidence.measured)
        self.graph, self.pane, at = target.graph, target.pane, target.at
        self.label = target.label or self.graph.ident
        self.half = at[0] if at is not None else BY_ID[self.pane].first
        self.outline = at is None or not at[0].startswith("ir-")
        self._at = at
        self._browsing = target.pane == "fusion"
        """Nobody asked for one line: lists begin at their worst row until the cursor is moved."""
        self.related = Related()
        self._links: Links | None = None
        self._contents: dict[str, Content] = {}
        self._lower, self._preferred = "source", False
        self._table_rows = 0
        self.tabs = PaneTabs({pane.id: f" {pane.key} {pane.title} " for pane in PANES}, id="tabs")
        # What tells of a selection stands behind the lists in which it is made.
        order = sorted(VIEWS.values(), key=lambda view: view.form == "page")
        self.views: dict[str, LinesView[Any]] = {view.id: self._make(view) for view in order}
        self._panes = Container(*self.views.values(), id="panes")
        table, result, source = (self.views[name] for name in ("kernels", "result", "source"))
        assert isinstance(table, TableView) and isinstance(result, CodeView) and isinstance(source, CodeView)
        self.kernels = KernelsPane(self.graph, self.session, table, result, source)
        self.fusion = FusionPane(self.views)
        findings = self.views["findings"]
        assert isinstance(findings, TonedView)
        self.findings = FindingsPane(self.session.run, self.graph, findings)

    @staticmethod
    def _make(view: View) -> LinesView[Any]:
        content = placeholder(view, "reading…")
        if isinstance(content, Table):
            return TableView(content, id=view.id)
        if isinstance(content, Page):
            return TonedView(content, id=view.id)
        assert isinstance(content, Document)
        return CodeView(content, id=view.id)

    def compose_head(self) -> ComposeResult:
        with Horizontal(id="head"):
            yield self.headline
            yield self.tabs

    def compose_body(self) -> ComposeResult:
        yield self._panes

    def on_mount(self) -> None:
        self.headline.show(f"{run_name(self.session.run.shown)} · {self.label}")
        self._arrange()
        self.session.join(self)
        self.findings.show(self.session.explanation)
        unread = partial(self.failed, "links or fusion cannot be worked out")
        self.call_after_refresh(self.start, self._read, "read", unread)

    def on_unmount(self) -> None:
        self.session.leave(self)
        self.replays.leave()
        self.evidence.leave()

    # -- reading

    def _read(self) -> None:
        reading = Reading(self.graph)
        for part in load_parts(reading):
            self.call_later(self._part_read, part)
        self.call_later(self._linked, reading.links)
        keep()
        self.call_later(self._fused, reading.fusion)
        for part in load_parts(reading, late=True):
            self.call_later(self._part_read, part)
        keep()

    def _part_read(self, part: Part) -> None:
        self._contents[part.view] = part.content
        name = part.view.removesuffix("-outline")
        if self._content_name(name) == part.view:
            self.views[name].show(part.content)
            self._go_to_line(name)
        if name == "kernels":
            self._kernels_read()

    def _go_to_line(self, view: str) -> None:
        """The line that the screen was opened at, or is sent to, as soon as its view can show it."""
        if self._at is not None and self._at[0] == view:
            line, self._at = self._at[1], None
            content = self.views[view].content
            first = content.first_number if isinstance(content, Document) else None
            self.views[view].cursor = line - (first or 1) if content.count >= line - (first or 1) else 0
            # Room is known after the layout, and a view that was hidden scrolls by itself then.
            self.call_after_refresh(self.call_after_refresh, self.views[view].bring_into_sight, True)
            if self._links is not None:
                self._select(self.views[view])

    def _kernels_read(self) -> None:
        code, text = self.graph.code(), self._contents.get("code")
        if code is not None and isinstance(text, Document):
            self.kernels.read(code, text)
            self._kernels_changed()

    def _linked(self, links: Links) -> None:
        self._links = links
        self.kernels.linked(links)
        self._kernels_changed()
        if self.view is not None:
            self._select(self.view)

    def _fused(self, fusion: Fusion) -> None:
        self.fusion.fill(fusion)
        self.kernels.fused(fusion)
        self._mark_producers(fusion)
        lanes = self.views["lanes"]
        if self.view is lanes and not self.related.leaves:
            self._select(lanes)
        else:
            self._reveal_all()
            self.fusion.follow()
        self.refresh_bindings()

    def _mark_producers(self, fusion: Fusion) -> None:
        """FX nodes that kernels compute again and again, or rewrite a tensor for, say so."""
        content, view = self._contents.get("fx-after"), self.views["fx-after"]
        texts = node_texts(fusion.report)
        if texts and isinstance(content, Document):
            marked = with_waste(content, "fx_after", texts)
            self._contents["fx-after"] = marked
            view.show(marked, view.cursor)

    def _content_name(self, view: str) -> str:
        return f"{view}-outline" if view.startswith("ir-") and self.outline else view

    # -- panes

    def on_resize(self) -> None:
        self._arrange()

    def action_pane(self, pane: str) -> None:
        self.pane = pane
        self.half = BY_ID[pane].first
        self._arrange()

    def on_pane_tabs_chosen(self, message: PaneTabs.Chosen) -> None:
        self.action_pane(message.pane)

    def _arrange(self) -> None:
        """Show the pane's views, give the keys to one of them, and bring the selection into its sight."""
        wide = self.app.size.width >= _WIDE
        if self.half in LOWER:
            self._lower = self.half
        names = shown(self.pane, wide, self.half, self._lower)
        arrangement = arrange(self.pane, wide, self._table_rows, self.app.size.height)
        # Set on the widgets and not by classes, which would work out all rules of all views again.
        self._panes.styles.layout = arrangement.layout
        self._panes.styles.grid_rows = arrangement.rows
        for name, view in self.views.items():
            view.display = name in names
            view.styles.width = f"{arrangement.widths.get(name, 1)}fr"
            view.styles.height = f"{arrangement.heights.get(name, 1)}fr"
            view.styles.column_span = 2 if name in arrangement.spanning else 1
            view.styles.margin = (
                0,
                0,
                0,
                1 if arrangement.layout == "horizontal" and name != names[0] else 0,
            )
        self.tabs.show(self.pane)
        if self.half not in names:
            self.half = names[0]
        self.focus_view(self.views[self.half])
        self.refresh_bindings()
        self._reveal_all()
        self.fusion.follow()

    def _kernels_changed(self) -> None:
        """Room for the rows that there are now; once there are results, a narrow pane has them below."""
        before = (self._table_rows, self._lower)
        if self.kernels.replay is not None and not self._preferred:
            self._preferred, self._lower = True, "result"
        self._table_rows = self.kernels.table.content.count
        if self.pane == "kernels" and before != (self._table_rows, self._lower):
            self._arrange()

    def action_turn(self, direction: int) -> None:
        wide = self.app.size.width >= _WIDE
        names = halves(self.pane) if wide or self.pane != "all" else shown("all", wide, self.half)
        position = names.index(self.half) if self.half in names else 0
        self.half = names[(position + direction) % len(names)]
        self._arrange()

    def on_descendant_focus(self) -> None:
        """A click may have moved the keys to another view."""
        if isinstance(self.focused, LinesView) and self.focused.id in self.views:
            self.half = self.focused.id

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("replay", "replay_all", "edit_kernel", "sort", "below"):
            return self.views["kernels"].display and (action != "sort" or self.kernels.replay is not None)
        if action == "stop":
            return self.session.running
        if action == "turn":
            return len(halves(self.pane)) > 1
        if action == "toggle_outline":
            return any(self.views[name].display for name in ("ir-before", "ir-after"))
        if action in ("fusion_view", "partner", "fusion_round", "export_fusion"):
            return self.pane == "fusion" and self.fusion.ready
        return super().check_action(action, parameters)

    def action_toggle_outline(self) -> None:
        self.outline = not self.outline
        for name in ("ir-before", "ir-after"):
            content = self._contents.get(self._content_name(name))
            if content is not None:
                self.views[name].show(content)
        self._reveal_all()

    # -- replay

    def action_replay(self) -> None:
        call = self.kernels.call
        if call is None:
            self.bar.remark("no launch here to replay")
        else:
            self._choose_launch()
            self.replays.ask([self.graph], call.index)

    def action_below(self) -> None:
        call = self.kernels.call
        if call is None:
            self.bar.remark("no launch here to look below")
        else:
            self.post_message(Open(BelowTarget(self.session, self.graph, call)))

    def _choose_launch(self) -> None:
        """The launch under the table's cursor is what the user has in mind: it becomes the selection."""
        self.kernels.chosen = True
        self._select(self.kernels.table)

    def action_replay_all(self) -> None:
        self.replays.ask([self.graph])

    def action_edit_kernel(self, anew: bool = False) -> None:
        """What-if: the source in the user's editor, then its replay beside the original."""
        from inspector.tui.editing import edit

        job: EditJob | str = f"a replay is running; {self.key('stop')} stops it"
        if not self.session.running:
            job = self.kernels.begin_edit(anew)
        if isinstance(job, EditJob):
            self._choose_launch()
            problem = edit(self.app, job.path)
            if not problem:
                self.replays.ask([self.graph], job.call, job)
                return
            job = problem
        self.bar.remark(job)

    def show_session(self) -> None:
        self.findings.show(self.session.explanation)
        self.kernels.show()
        self._kernels_changed()
        self._reveal_all()

    def action_stop(self) -> None:
        self.replays.stop()

    def action_sort(self) -> None:
        remark = self.kernels.next_order()
        self._reveal_all()
        self.bar.remark(remark)

    # -- the selection

    def on_lines_view_moved(self, message: LinesView.Moved) -> None:
        self.kernels.chosen = True
        # These two tell of what was selected elsewhere: moving in them only reads on.
        if message.view.id not in ("why", "boxes", "findings"):
            self._select(message.view)

    def _select(self, view: LinesView[Any]) -> None:
        """What is under the cursor of `view` becomes the selection of all views."""
        if self._links is None:
            return
        ref = view.ref
        cross = self._links.cross
        self.related = cross.related(ref) if ref is not None else Related()
        if (pair := self.fusion.pair_of(view)) is not None:
            self.related = cross.related_to_all(Ref("node", name) for name in pair)
        self._reveal_all(chosen=view)
        self.kernels.show_details()
        self.fusion.follow()
        self.bar.show(self._links.chains.write(self.related) if ref is not None else Chain(()))

    def _reveal_all(self, chosen: LinesView[Any] | None = None) -> None:
        """Mark the selection in the views on screen; the one where it was made keeps its place."""
        if self._links is None:
            return
        for view in self.views.values():
            # Kernels lead their source and lanes the reasons, so these follow even out of sight. Sorted by
            # time, the first row is what to look at, until a selection was made.
            if view.display or view.id in ("kernels", "lanes"):
                rows = view.content.rows_of(self.related)
                if view is chosen or (view.id == "kernels" and self.kernels.starts_at_top):
                    view.mark(rows)
                else:
                    view.reveal(rows)

    def action_open(self) -> None:
        view = self.view
        if view is None or view.id is None:
            return
        if self.pane == "explain":
            self._follow_evidence()
            return
        if self.pane == "fusion" and (node := self.fusion.target(view)) is not None:
            self._go_to_node(node)
            return
        self.pane, self.half = next_step(self.pane, view.id)
        self._arrange()

    def action_step_mark(self, direction: int) -> None:
        if self.view is not None and not self.view.step_mark(direction):
            self.bar.remark("nothing here belongs to the selection")

    # -- findings

    def _follow_evidence(self) -> None:
        item = self.findings.evidence
        if item is None:
            self.bar.remark("no line to go to here: findings have them")
        else:
            self.evidence.look_up(item, self._show_destination)

    def _show_destination(self, place: Destination) -> None:
        """A line of this graph is shown here."""
        if place.graph is not self.graph or place.place is None:
            self.evidence.go_to(place)
            return
        self.pane, self.half = place.place
        if place.line is not None:
            self._at = (self.half, place.line)
            if self.half.startswith("ir-") and self.outline:
                self.action_toggle_outline()
        self._arrange()
        self._go_to_line(self.half)

    # -- fusion

    def action_fusion_view(self, view: str) -> None:
        self.half = "lanes" if self.half == view else view
        self._arrange()
        if view == "missed" and self.half == view:
            if self._browsing and not self.kernels.chosen:
                self.views[view].move_to(0, tell=False, jump=True)
            self._select(self.views[view])

    def action_partner(self) -> None:
        node = self.fusion.partner()
        if node is None:
            self.bar.remark("nothing was missed here")
        else:
            self._go_to_node(node)

    def _go_to_node(self, node: str) -> None:
        """Put the lanes' cursor on a node; the drawing of neighbours stays, if that is on screen."""
        if self.half != "boxes":
            self.half = "lanes"
            self._arrange()
        if self.fusion.go_to(node):
            self._select(self.views["lanes"])

    def action_fusion_round(self, direction: int) -> None:
        self.half = "lanes"
        self._arrange()
        self.bar.remark(self.fusion.step(direction))
        self.views["lanes"].mark(self.views["lanes"].content.rows_of(self.related))

    def action_export_fusion(self) -> None:
        self.start(self._export, "export", partial(self.failed, "not exported"))

    def _export(self) -> None:
        self.call_later(self.bar.remark, *self.fusion.export())

    # -- for the palette

    def places(self) -> Iterator[Place]:
        code = self.graph.code() if self._links is not None else None
        for kernel in code.kernels if code else ():
            yield Place(kernel.name, "kernel", partial(self.go_to_kernel, kernel.name))

    def go_to_kernel(self, name: str) -> None:
        self.action_pane("kernels")
        row = self.kernels.row_of(name)
        if row is not None:
            self.kernels.table.cursor = -1
            self.kernels.table.move_to(row, tell=False)
            self._select(self.kernels.table)
