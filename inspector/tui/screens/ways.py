"""Where one gets to from a run beside its graphs: source lines, the trace, one rank alone."""

from __future__ import annotations

from inspector.model.run import RunFacts
from inspector.present.run import Event, GraphEntry, events_of, rank_name
from inspector.present.source import place_of, source_document
from inspector.readers.run import Run
from inspector.tui.navigation import Open, SourceTarget, TraceTarget
from inspector.tui.replaying import ReplaySession
from inspector.tui.sources import find_source

from .explained import ExplainedScreen


class RunWays(ExplainedScreen):
    """The part of a run's screen that leads elsewhere. `rank` is the only one shown, empty for all."""

    def __init__(self, run: Run | None, session: ReplaySession) -> None:
        super().__init__(session)
        self.run = run
        self.facts: RunFacts | None = None
        self.rank = ""
        self._entries: list[GraphEntry] = []

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "next_rank":
            return len(self._ranks) > 1
        if action == "trace":
            return self.run is not None and bool(self.run.trace_paths)
        return super().check_action(action, parameters)

    def _open_source(self, event: Event) -> None:
        """The user's line, where the file is at hand; else what torch noted of it stands below."""
        place = place_of(event)
        found = find_source(place, self.run) if place is not None and self.run is not None else None
        if place is None or found is None:
            where = f"{place.path} is not on this machine" if place is not None else "torch names no place"
            self.bar.remark(f"{where}; this row is told in full below")
            return
        document = source_document(found.path, found.text, place, events_of(self.facts))
        remark = "" if found.certain else "this line is not what torch saw: the file has changed since"
        self.post_message(Open(SourceTarget(document, f"{place.short} · {event.headline}", remark)))

    def action_trace(self) -> None:
        if self.run is None or not self.run.trace_paths:
            self.bar.remark("no structured trace here: a capture writes one, and so does TORCH_TRACE=FOLDER")
            return
        self.post_message(Open(TraceTarget(self.run)))

    # -- ranks

    @property
    def _ranks(self) -> list[str]:
        """What tells the run's processes apart, in order."""
        labels = {entry.rank for entry in self._entries if entry.rank}
        return sorted(labels, key=lambda label: (not label.isdigit(), label.rjust(12)))

    def action_next_rank(self) -> None:
        """One rank after the other, then all again."""
        choices = ["", *self._ranks]
        self.rank = choices[(choices.index(self.rank) + 1) % len(choices)]
        self.show_rank()
        shown = f"only {rank_name(self.rank)}" if self.rank else "all ranks"
        self.bar.remark(f"{shown}; {self.key('rank')} shows the next")

    def show_rank(self) -> None:
        """Draw what `rank` leaves."""
        raise NotImplementedError
