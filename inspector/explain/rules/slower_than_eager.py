"""Compiled is slower than eager: by calls, beyond what the other findings claim; and where both sides were
profiled, in parts whose reason no other rule knows."""

from __future__ import annotations

from collections.abc import Iterable

from inspector.analysis.two_sides import same_operator_other_kernel
from inspector.explain.block_words import both_times, change, label
from inspector.explain.case import Case
from inspector.explain.doubts import apart
from inspector.explain.rule import Rule, Stage, lost_finding, severity_of, timed
from inspector.model.explain import Evidence, Finding
from inspector.units import duration

from .healthy import UNREAD

CLAIMED = 0.5
"""Of what a call takes longer than in eager: below it the most important thing is not explained."""
_EAGER_LIBRARY = "library kernels alone take {library}, more than all of eager, which must run others"


def slower_than_eager(case: Case, findings: Iterable[Finding]) -> Finding | None:
    """What a steady call takes longer than in eager beyond what `findings` claim, where that is most."""
    times = case.times
    if times.compiled_ms is None or times.eager_ms is None or not case.graphs or case.in_eager:
        return None
    lost = times.compiled_ms - times.eager_ms
    claimed = sum(item.cost_ms or 0.0 for item in findings if item.account == "call")
    if lost <= 0 or not apart(times.compiled_ms, times.eager_ms) or claimed >= CLAIMED * lost:
        return None
    left = lost - claimed
    share = case.share(left)
    library = case.role_ms("library")
    why = "nothing in its files says why"
    if case.unread:
        why = UNREAD
    elif case.kernels_measured and library > times.eager_ms and apart(library, times.eager_ms):
        why = _EAGER_LIBRARY.format(library=duration(library))
    longest = sorted(
        ((graph.ms(launch), graph, launch) for graph, launch in case.launches()), key=lambda item: -item[0]
    )
    return Finding(
        rule="slower_than_eager",
        severity=severity_of(share),
        title=f"a call takes {duration(left)} more than in eager, and {why}",
        graph=None,
        cost_ms=left,
        evidence=tuple(
            graph.launch_evidence(launch, f"{timed(launch, ms)}: {launch.name}")
            for ms, graph, launch in longest[:3]
        )
        or (Evidence(case.facts.root, None, "the run"),),
        advice="leave it in eager until the cause is known, or try other settings: explain --try modes",
        how="measured",
        share=share,
    )


def find(case: Case) -> Iterable[Finding]:
    for number, block in case.slower:
        if same_operator_other_kernel(block):
            continue
        became = change(block) if block.eager_ms else ""
        yield lost_finding(
            case,
            number,
            block,
            rule="slower_than_eager",
            title=f"{label(block)}: {both_times(block)}" + (f", {became}" if became else ""),
            advice="no rule knows why: compare both sides' kernels; torch.compiler.disable keeps eager's",
        )


UNKNOWN = Rule("slower_than_eager", Stage.PROGRAM, find, place_only=True)
"""Of a whole call, by its time alone."""
RULE = Rule("slower_than_eager", Stage.LOST, find, place_only=True)
