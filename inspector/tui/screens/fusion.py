"""The fusion pane: which node or miss its views tell of, and the round that the lanes show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from inspector.model.fusion import FusionStep
from inspector.model.problem import InspectorError
from inspector.present.fusion_boxes import boxes_page
from inspector.present.fusion_lanes import lanes_table, missed_of_row
from inspector.present.fusion_why import miss_page, why_page
from inspector.present.rows import MissRow, NodeRow
from inspector.present.spans import Page, Tone
from inspector.tui.widgets.lines_view import LinesView
from inspector.tui.widgets.table_view import TableView
from inspector.tui.widgets.toned_view import TonedView
from inspector.views.fusion import Fusion, export_fusion

_PAIRS_TOLD = 3


class FusionPane:
    """Keeps the pane's views in step with the selection. The screen owns focus and arrangement."""

    def __init__(self, views: Mapping[str, LinesView[Any]]) -> None:
        self._views = views
        self._fusion: Fusion | None = None
        self._step: int | None = None
        """Position in the history; None: as it ended, with what was missed."""
        self._pair: int | None = None
        """The miss that is followed back and forth, as a position in the report's."""
        self._told: dict[str, tuple[object, ...]] = {}

    @property
    def ready(self) -> bool:
        return self._fusion is not None and bool(self._fusion.report.nodes)

    def fill(self, fusion: Fusion) -> None:
        self._fusion = fusion
        self._views["lanes"].show(fusion.table)

    @property
    def node(self) -> str | None:
        """The node under the lanes' cursor; below a group, the group's last one."""
        ref = self._views["lanes"].ref
        return ref.key if self.ready and ref is not None else None

    def _position(self) -> int | None:
        """The miss under the list's cursor."""
        view = self._views["missed"]
        key = view.key if isinstance(view, TableView) else None
        return key.number if self.ready and isinstance(key, MissRow) else None

    def pair_of(self, view: LinesView[Any]) -> tuple[str, str] | None:
        """The two groups that a row stands for: of the list of misses, or of the miss that is followed."""
        if not self.ready or self._fusion is None:
            return None
        if view.id == "lanes" and self._pair not in self._misses_here():
            self._pair = None
        position = {"missed": self._position(), "lanes": self._pair}.get(view.id or "")
        if position is None:
            return None
        missed = self._fusion.report.missed[position]
        return missed.first, missed.second

    def _misses_here(self) -> Sequence[int]:
        """Positions of the misses of the node under the lanes' cursor."""
        node = self.node
        return self._fusion.partners.misses_of(node) if self._fusion is not None and node is not None else ()

    def follow(self) -> None:
        """Write what the views on screen tell of the selection, those that do not yet tell it."""
        if not self.ready or self._fusion is None:
            return
        partners, neighbours, node = self._fusion.partners, self._fusion.neighbours, self.node
        if self._views["why"].display:
            position = self._position() if self._views["missed"].display else None
            if position is not None:
                self._tell("why", ("miss", position), partial(miss_page, partners, position))
            elif node is not None:
                told = ("node", node, self._pair)
                self._tell("why", told, partial(why_page, partners, node, chosen=self._pair))
        if self._views["boxes"].display and node is not None:
            self._tell("boxes", ("node", node), partial(boxes_page, neighbours, node))

    def _tell(self, name: str, what: tuple[object, ...], write: Callable[[int], Page]) -> None:
        view = self._views[name]
        if self._told.get(name) != what and isinstance(view, TonedView):
            self._told[name] = what
            view.show_written(write)

    # -- going elsewhere

    def target(self, view: LinesView[Any]) -> str | None:
        """The node that enter leads to from a row: a partner, a neighbour, one of a missed pair."""
        if not self.ready or self._fusion is None:
            return None
        report = self._fusion.report
        if view.id == "missed":
            self._pair = self._position()
            return self._end_of(self._pair, 0) if self._pair is not None else None
        if view.id == "lanes":
            missed = missed_of_row(view.content, view.cursor, report)
            if missed is None:
                return None
            self._pair = report.missed.index(missed)
            return self._end_of(self._pair, 1)
        if view.id in ("why", "boxes"):
            return view.ref.key if view.ref is not None else self.node
        return None

    def partner(self) -> str | None:
        """The node at the other end of the miss that is followed, else of the worst one here."""
        misses = self._misses_here()
        if not misses or self._fusion is None or self.node is None:
            return None
        if self._pair not in misses:
            self._pair = misses[0]
        assert self._pair is not None
        missed, group = self._fusion.report.missed[self._pair], self._fusion.report.group(self.node)
        return self._end_of(self._pair, 1 if group is not None and group.name == missed.first else 0)

    def _end_of(self, position: int, side: int) -> str:
        """The first group's last node, or the second's first: the two that are nearest to each other."""
        assert self._fusion is not None
        missed = self._fusion.report.missed[position]
        group = self._fusion.report.group(missed.second if side else missed.first)
        assert group is not None
        return group.nodes[0] if side else group.nodes[-1]

    def go_to(self, node: str) -> bool:
        """Put the lanes' cursor on a node; False where it has no row."""
        lanes = self._views["lanes"]
        if not isinstance(lanes, TableView) or NodeRow(node) not in lanes.content.by_key:
            return False
        lanes.move_to(lanes.content.by_key[NodeRow(node)], tell=False, jump=True)
        return True

    # -- rounds and files

    def step(self, direction: int) -> str:
        """Show the lanes a round earlier or later; a sentence about that round."""
        if self._fusion is None:
            return ""
        lanes = self._fusion.lanes
        steps = lanes.history.steps
        here = lanes.last if self._step is None else self._step
        there = min(max(here + direction, 0), lanes.last)
        self._step = None if there == lanes.last else there
        table = self._fusion.table if self._step is None else lanes_table(lanes, self._step)
        self._views["lanes"].update(table)
        texts = [_told(steps[there], there == lanes.last), *lanes.history.notes]
        if here == there:
            texts.insert(0, "this is where it began" if there == 0 else "this is how it ended")
        return "; ".join(texts)

    def export(self) -> tuple[str, Tone]:
        """Write the drawings into the current folder; what to say about it."""
        assert self._fusion is not None
        try:
            written = export_fusion(self._fusion.report, Path.cwd())
        except InspectorError as error:
            return str(error), "bad"
        return f"wrote {' and '.join(path.name for path in written)} in {Path.cwd()}", "good"


def _told(step: FusionStep, is_last: bool) -> str:
    if step.number is None:
        return "as in ir_post_fusion.txt"
    if step.number == 0:
        return "before fusion"
    pairs = [f"{_short(first)} + {_short(second)}" for first, second in step.fused]
    more = f" and {len(pairs) - _PAIRS_TOLD} more" if len(pairs) > _PAIRS_TOLD else ""
    what = f"fused {', '.join(pairs[:_PAIRS_TOLD])}{more}" if pairs else "fused nothing"
    return f"round {step.number} {what}" + (", the last" if is_last else "")


def _short(name: str) -> str:
    parts = name.split("_")
    return name if len(parts) < 3 else f"{parts[0]}…{parts[-1]}"
