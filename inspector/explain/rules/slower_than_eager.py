"""Compiled is slower than eager: block by block where both sides were profiled, and in the whole where most
of what a call lost is claimed by no finding that knows a cause."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable

from inspector.analysis.steady import MOST
from inspector.analysis.two_sides import same_operator_other_kernel
from inspector.explain.block_words import SAME_KERNEL, both_times, change, label
from inspector.explain.case import Case
from inspector.explain.claims import on_whole
from inspector.explain.doubts import apart, profile_fits
from inspector.explain.left_to_aten import as_eager, kept_whole
from inspector.explain.rule import (
    Rule,
    Stage,
    block_evidence,
    lost_finding,
    timed,
)
from inspector.explain.sized_calls import few_sizes, losing_calls
from inspector.model.account import ROUNDING, Account, Claim, Part
from inspector.model.explain import Evidence, Finding, Trial
from inspector.model.two_sides import Block
from inspector.text import joined
from inspector.units import duration

from .cudagraphs_per_size import per_size
from .healthy import UNREAD

_EAGER_LIBRARY = "library kernels alone take {library}, more than all of eager, which must run others"


def slower_than_eager(case: Case, account: Account) -> tuple[Rule, Finding] | None:
    """What a steady call takes longer than in eager, where most of that is claimed by nobody, with the rule
    that this is of."""
    over, noise = account.over_eager_ms, account.noise_ms
    if case.times.outcome != "slower" or over is None or not case.graphs or case.in_eager:
        return None
    if case.busy:
        # Others on the machine are a cause.
        return None
    left = over - _explained(account)
    if left <= 0 or left < over / 2:
        return None
    lost = sorted(account.parts, key=lambda part: part.claimed_ms[1] - part.over_eager_ms)
    # Where in a profile of calls that took longer, whoever took longer there, says nothing of these.
    most = lost[0] if lost and _unclaimed(lost[0]) > noise and _fits(case) else None
    claims = [on_whole(left, "measured", "eager")]
    if most is not None:
        there = min(_unclaimed(most), left)
        claims = [
            Claim(most.block, "eager", (there, there), "profiled", part="" if most.launches else most.name),
            on_whole(left - there, "measured", "eager"),
        ]
    why = _where(most, left) if most is not None else _why(case)
    if seen := _told_where_seen(case, account):
        why = f"as profiled calls lose {duration(seen)} and no more"
    unknown = f", of which {duration(left)} have no known cause" if left < over - ROUNDING else ""
    out = _ruled_out(account, most) if _fits(case) else ()
    # Who knows why half or more of it may be lost says more than that the rest is not known.
    # What a part takes longer than in eager is not known by a profile that slowed one side.
    claimed = _explained(account, surely=False) if _fits(case) else account.claimed_ms[1]
    known = seen or claimed >= left
    return REST if known else UNKNOWN, Finding(
        rule="slower_than_eager",
        severity="medium" if known else "high",
        title=f"a call takes {duration(over)} more than in eager{unknown}, {why}"
        + (f"; not {' nor '.join(out)}" if out else ""),
        graph=None,
        cost_ms=left,
        evidence=_evidence(case, most),
        advice="leave it in eager until the cause is known, or find out: explain --try auto",
        how="measured",
        share=case.share(left),
        claims=tuple(claim for claim in claims if claim.ms[1] > 0),
    )


def _told_where_seen(case: Case, account: Account) -> float:
    """What profiled calls lost in their parts, where that is less than calls do and a cause of most of it is
    told: the rest is no work that a profile shows, and says nothing against that cause. Else 0."""
    over = account.over_eager_ms or 0.0
    seen = sum(max(part.over_eager_ms, 0.0) for part in account.parts)
    if case.walls is None or not apart(seen, over) or seen > over:
        return 0.0
    return seen if _explained(account) > MOST * seen else 0.0


def _fits(case: Case) -> bool:
    """Whether a profile of either side, where there is one, is of calls as long as the others."""
    both = case.sides is not None and case.sides.ledger is not None
    return profile_fits(case) and (not both or case.walls is not None)


def _unclaimed(part: Part) -> float:
    """What a part takes more than eager, and nobody claims."""
    return part.over_eager_ms - part.claimed_ms[1]


def _explained(account: Account, surely: bool = True) -> float:
    """Of what findings claim, in the middle of what they may be or, not `surely`, at most, what eager does
    not need: a claim of a part that is as fast as eager's explains none of the loss."""
    end = statistics.fmean if surely else max
    of_parts = [(part, end(part.claimed_ms)) for part in account.parts]
    claimed = end(account.claimed_ms)
    if all(part.eager_ms is None for part in account.parts):
        return claimed
    elsewhere = claimed - sum(ms for _, ms in of_parts)
    return elsewhere + sum(
        min(ms, max(part.over_eager_ms, 0.0)) for part, ms in of_parts if part.eager_ms is not None
    )


def _where(part: Part, left: float) -> str:
    """What others win is no part of `left`."""
    ms = _unclaimed(part)
    share = f"{duration(ms)} of it" if ms <= left else "most of it lost"
    return f"{share} at {part.name}: {duration(part.eager_ms or 0)} in eager, {duration(part.ms)} compiled"


def _why(case: Case) -> str:
    library, eager = case.role_ms("library"), case.times.eager_ms or 0.0
    if case.unread:
        return f"and {UNREAD}"
    if not _fits(case):
        return "and the profile is of calls that took longer"
    if case.kernels_measured and library > eager and apart(library, eager):
        return f"and {_EAGER_LIBRARY.format(library=duration(library))}"
    return "and nothing in its files says why"


def _ruled_out(account: Account, most: Part | None) -> list[str]:
    """What takes no longer than in eager, of parts of which both sides are known; what only eager runs is no
    candidate."""
    together: dict[str, list[Part]] = defaultdict(list)
    for part in sorted(account.parts, key=lambda part: bool(part.launches)):
        if part is not most and part.eager_ms is not None and part.ms > 0:
            together[_kind(part, most)].append(part)
    return [
        kind
        for kind, parts in together.items()
        if sum(part.over_eager_ms for part in parts) <= account.noise_ms
    ]


def _kind(part: Part, most: Part | None) -> str:
    """Blocks of graphs together, and what runs outside of them; else the part's name."""
    if part.launches:
        return "any other block" if most is not None and most.launches else "its kernels"
    if part.block is None:
        return part.name
    other = most is not None and most.block is not None and not most.launches
    return f"{'other ' if other else ''}operators outside of graphs"


def _evidence(case: Case, most: Part | None) -> tuple[Evidence, ...]:
    """The line and both sides' kernels of a block; else the longest launches."""
    if most is not None and most.block is not None and case.sides is not None:
        return block_evidence(case, case.sides.joined.blocks[most.block])
    longest = sorted(
        ((graph.ms(launch), graph, launch) for graph, launch in case.launches()), key=lambda item: -item[0]
    )
    return tuple(
        graph.launch_evidence(launch, f"{timed(launch, ms)}: {launch.name}")
        for ms, graph, launch in longest[:3]
    ) or (Evidence(case.facts.root, None, "the run"),)


def _of_sizes(case: Case) -> Iterable[Finding]:
    """Calls that lose where the whole does not."""
    symbolic = any(
        not isinstance(size, int)
        for graph in case.graphs
        for node in (graph.artifacts.fx_after.nodes if graph.artifacts.fx_after is not None else ())
        for size in (node.meta.shape if node.meta is not None else ())
    )
    advice, trial = "capture these calls alone, and explain that run", None
    if symbolic and few_sizes(case):
        advice, trial = "compiled for any size; dynamic=False compiles for each", Trial(dynamic=False)
    elif symbolic:
        advice = "compiled for any size, of too many to compile for each: pad to a few sizes, and time it"
    return losing_calls(case, "slower_than_eager", advice, trial=trial)


def find(case: Case) -> Iterable[Finding]:
    times = case.times
    # Past the limit of recompiles it is chance which sizes were compiled.
    if times.losing and times.outcome != "slower" and per_size(case) is None and not case.some_in_eager:
        yield from _of_sizes(case)
    for number, block in case.slower:
        became = change(block) if block.eager_ms else ""
        # That a kernel took longer beside other programs says nothing of what was compiled.
        if same_operator_other_kernel(block) or (case.profile_busy and became == SAME_KERNEL):
            continue
        whole = _whole(case, block)
        yield lost_finding(
            case,
            [(number, block)],
            rule="slower_than_eager",
            title=f"{label(block)}: {both_times(block)}" + (f", {became}" if became else ""),
            advice=_advice(block, whole),
            trial=Trial(whole=whole) if whole else None,
        )


def _whole(case: Case, block: Block) -> tuple[str, ...]:
    """What eager calls and compiled code does not: by eager's profile, else in the block's longest kernel."""
    if names := as_eager(case, block):
        return names
    own = list(case.launches_of(block))
    return kept_whole(*max(own, key=lambda item: item[0].ms(item[1]))) if own else ()


def _advice(block: Block, whole: tuple[str, ...]) -> str:
    if whole:
        return (
            f"leave {joined(whole, 3)} to ATen as eager does, in a torch.library.custom_op (with "
            "register_fake); no rule knows why generated code takes longer"
        )
    if change(block) == SAME_KERNEL:
        return (
            "no rule knows why: the same kernel, so that strides, caches or threads differ; "
            "torch.compiler.disable keeps eager's"
        )
    return "no rule knows why: compare both sides' kernels; torch.compiler.disable keeps eager's"


UNKNOWN = Rule("slower_than_eager", Stage.LOST, find, place_only=True)
"""Of a whole call, once the others have claimed what they know."""
REST = Rule("slower_than_eager", Stage.BOUND, find, place_only=True)
"""The same where what a profile shows, or as much as this, has its cause, which is said before it."""
RULE = Rule("slower_than_eager", Stage.LOST, find, place_only=True)
