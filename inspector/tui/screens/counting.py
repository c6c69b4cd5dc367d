"""Counting the graphs of a run in a thread: those on screen, or all of them with their kernels."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from inspector.present.run import Counts
from inspector.readers.graph import CompiledGraph
from inspector.tui.replaying import ReplaySession
from inspector.units import plural

from .base import InspectorScreen

_REPORT_EVERY_S = 0.05
"""How often a counting thread reports: the table is fitted anew for each report."""


class Counting:
    """`counts` by graph; `show` draws those of some graphs that were counted since."""

    def __init__(
        self, screen: InspectorScreen, session: ReplaySession, show: Callable[[Mapping[str, Counts]], None]
    ) -> None:
        self.counts: dict[str, Counts] = {}
        self.graphs: Mapping[str, CompiledGraph] = {}
        self._screen = screen
        self._session = session
        self._show = show
        self._wanted: tuple[str, ...] = ()
        self._all = False
        self._working = False

    def count_visible(self, idents: list[str]) -> None:
        """What was asked before and is not done is dropped."""
        if not self._all:
            self._count(tuple(ident for ident in idents if ident not in self.counts))

    def count_all(self) -> None:
        self._all = True
        wanted = [ident for ident in self.graphs if self._needs_code(ident)]
        done = "everything is counted"
        self._screen.bar.remark(f"counting {plural(len(wanted), 'graph')}…" if wanted else done)
        self._count(tuple(wanted))

    def count_opened(self) -> None:
        """Graphs that were opened have been read whole: their kernels can be counted for nothing."""
        fresh = tuple(ident for ident in self._session.opened if self._needs_code(ident))
        if fresh and not self._working:
            self._count(fresh)

    def _needs_code(self, ident: str) -> bool:
        return ident not in self.counts or self.counts[ident].kernels is None

    def _count(self, wanted: tuple[str, ...]) -> None:
        self._wanted = wanted
        if wanted and not self._working:
            self._working = True
            self._screen.start(self._work, "count", self._failed)

    def _work(self) -> None:
        from inspector.views.loading import count_graph

        batch, with_code = self._wanted, self._all
        counts: dict[str, Counts] = {}
        reported = time.monotonic()
        for ident in batch:
            if self._wanted is not batch:
                break
            opened = ident in self._session.opened
            counts[ident] = count_graph(self.graphs[ident], with_code or opened, keep=opened)
            if time.monotonic() - reported > _REPORT_EVERY_S:
                self._screen.call_later(self._counted, counts)
                counts, reported = {}, time.monotonic()
        self._screen.call_later(self._ended, counts)

    def _counted(self, counts: Mapping[str, Counts]) -> None:
        self.counts.update(counts)
        self._show(counts)

    def _failed(self, error: Exception) -> None:
        self._working = self._all = False
        self._screen.failed("graphs cannot be counted", error)

    def _ended(self, counts: Mapping[str, Counts]) -> None:
        self._counted(counts)
        self._working = False
        left = tuple(ident for ident in self._wanted if ident not in counts and self._is_wanted(ident))
        if self._all and not left:
            self._all = False
            self._screen.bar.remark("counted")
        self._count(left)

    def _is_wanted(self, ident: str) -> bool:
        whole = self._all or ident in self._session.opened
        return self._needs_code(ident) if whole else ident not in self.counts
