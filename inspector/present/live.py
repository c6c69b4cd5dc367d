"""A capture while it runs, and how it ended, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inspector.capture.launch import CaptureOutcome
from inspector.model.logs import GraphBreak, Recompile
from inspector.model.run import RunFacts
from inspector.present.content import clean
from inspector.present.run import Counts, GraphEntry, events_of, plural, run_table
from inspector.present.tables import Table, Tone, message_table


def live_facts(breaks: Sequence[GraphBreak], recompiles: Sequence[Recompile]) -> RunFacts:
    """What is known of a run that is being captured."""
    return RunFacts(
        root="",
        kind="capture",
        torch_version=None,
        devices=(),
        ranks=1,
        graph_breaks=tuple(breaks),
        recompiles=tuple(recompiles),
    )


def live_table(entries: Sequence[GraphEntry], counts: Mapping[str, Counts], facts: RunFacts) -> Table:
    """The table of the run screen, as far as it is known."""
    if not entries and not events_of(facts):
        return message_table("Compiled graphs", "nothing is compiled yet")
    return run_table(entries, counts, {}, facts)


def live_headline(entries: Sequence[GraphEntry], counts: Mapping[str, Counts], facts: RunFacts) -> str:
    """`3 graphs · 41 FX nodes · 7 kernels · 1 graph break`"""
    parts = [plural(len(entries), "graph")]
    known = list(counts.values())
    if known:
        parts.append(plural(sum(item.fx or 0 for item in known), "FX node"))
        parts.append(plural(sum(sum((item.kernels or {}).values()) for item in known), "kernel"))
    if facts.graph_breaks:
        parts.append(plural(len(facts.graph_breaks), "graph break"))
    if facts.recompiles:
        parts.append(plural(len(facts.recompiles), "recompile"))
    return clean(" · ".join(parts))


def ending(outcome: CaptureOutcome) -> tuple[str, Tone]:
    """How it ended and the first problem; all problems stand below the run's table."""
    how = "interrupted, " if outcome.interrupted else ""
    text = f"captured: {how}exit code {outcome.exit_code}"
    if outcome.notes:
        more = f" (and {len(outcome.notes) - 1} more below)" if len(outcome.notes) > 1 else ""
        text += f": {outcome.notes[0]}{more}"
    else:
        text += "; esc goes back to what it printed"
    tone: Tone = "bad" if outcome.exit_code else "warn" if outcome.notes else "dim"
    return clean(text), tone
