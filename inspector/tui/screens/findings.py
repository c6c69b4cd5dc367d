"""The explain pane of one graph: the findings about it, and the evidence under the cursor."""

from __future__ import annotations

from inspector.model.explain import Evidence, Explanation
from inspector.present.explain import ExplainPage, Target, graph_page
from inspector.present.spans import Page, message_page
from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run
from inspector.tui.actions import key_text
from inspector.tui.widgets.toned_view import TonedView


class FindingsPane:
    """Rules one view. The screen owns focus, and goes where evidence is."""

    def __init__(self, run: Run, graph: CompiledGraph, view: TonedView) -> None:
        self._folder = run.label(graph.folder) if graph.folder is not None else graph.ident
        self._ident = graph.ident
        self._view = view
        self._explanation: Explanation | None = None
        self._written = ExplainPage(Page(""), ())

    def show(self, explanation: Explanation | None) -> None:
        """None: not worked out yet."""
        if explanation is None:
            text = f"not worked out yet; {key_text(self._view.app, 'explain')} on the run's screen does so"
            self._view.show(message_page("Explain", text))
        elif explanation is not self._explanation:
            self._explanation = explanation
            self._view.show_written(self._write)

    def _write(self, width: int) -> Page:
        assert self._explanation is not None
        self._written = graph_page(self._explanation, self._ident, self._folder, width)
        return self._written.page

    @property
    def evidence(self) -> Evidence | None:
        """The line of evidence under the cursor; for the rest of a finding its first one."""
        row = self._view.cursor
        target = self._written.targets[row] if row < len(self._written.targets) else None
        if not isinstance(target, Target) or self._explanation is None:
            return None
        evidence = self._explanation.findings[target.finding].evidence
        return evidence[target.evidence or 0] if evidence else None
