"""Who accounts for which milliseconds: claims made, and settled so that they never overlap.

A claim is of one place: a block, a launch (which is its block where a profile knows that), a named part, the
whole call, or the whole run. Where two want the same milliseconds, a cause goes before a mere place, better
evidence before worse, the narrower place before the wider; who comes later gets what is left, or nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from inspector.model.account import Account, Claim, ClaimHow, Interval, Over, Part
from inspector.model.explain import Finding, FindingHow

from .case import GraphCase, Launch
from .estimate import FACTOR
from .rule import Rule, Stage

_SHORT = 1e-3
"""Of a part's time: what kernels take that are of microseconds beside one of milliseconds."""
_BEST_FIRST: tuple[ClaimHow, ...] = (
    "tried", "measured", "profiled", "replayed", "counted", "bounded", "estimated",
)  # fmt: skip
_OF_FINDING: dict[FindingHow, ClaimHow] = {
    "measured": "measured",
    "replayed": "replayed",
    "estimated": "estimated",
}


# -- made


def on_launch(
    graph: GraphCase, launch: Launch, ms: float | Interval, how: ClaimHow, over: Over = "least"
) -> Claim:
    """Milliseconds per steady call of one launch: an interval, or the most that it can be."""
    return Claim(None, over, interval(ms, how), how, graph.name, launch.call.index)


def on_block(number: int, ms: float | Interval, how: ClaimHow, over: Over = "eager") -> Claim:
    """Of a block of `case.sides`, by its place."""
    return Claim(number, over, interval(ms, how), how)


def on_part(part: str, ms: float | Interval, how: ClaimHow, over: Over = "least") -> Claim:
    """Of `HOST` or `TRANSFERS`."""
    return Claim(None, over, interval(ms, how), how, part=part)


def on_whole(ms: float | Interval, how: ClaimHow, over: Over = "least") -> Claim:
    """Of the whole call, or of the run for a finding of that account."""
    return Claim(None, over, interval(ms, how), how)


def on_launches(
    costs: Iterable[tuple[GraphCase, Launch, float | Interval]],
    how: ClaimHow,
    cost_ms: float,
    over: Over = "least",
) -> tuple[Claim, ...]:
    """`cost_ms` of several launches together: each has the share of it that its own milliseconds have."""
    own = [(graph, launch, interval(ms, how)) for graph, launch, ms in costs]
    own = [item for item in own if item[2][1] > 0]
    part = cost_ms / sum(most for _, _, (_, most) in own) if own else 0.0
    return tuple(
        on_launch(graph, launch, (least * part, most * part), how, over)
        for graph, launch, (least, most) in own
    )


def interval(ms: float | Interval, how: ClaimHow) -> Interval:
    """As it is; of a single figure itself, and of an estimate that is how much it may be."""
    if isinstance(ms, tuple):
        return ms
    return (ms / FACTOR, ms) if how == "estimated" else (ms, ms)


# -- settled


def settle(
    account: Account, asked: Sequence[tuple[Rule, Finding]]
) -> tuple[list[tuple[Rule, Finding, Finding]], Account]:
    """Each finding as it asked and with what it gets of that, and the account with that in it. Findings that
    ask for milliseconds and get none are gone, but for facts, and so are quiet and further ones of a rule
    that ask for less than the noise; those that ask for none stay. The order stays as it was."""
    books = _Books(account)
    wanted = [(number, rule, _with_claims(finding)) for number, (rule, finding) in enumerate(asked)]
    got: dict[int, tuple[Rule, Finding, Finding]] = {}
    said: set[str] = set()
    losing = (account.over_eager_ms or 0.0) > account.noise_ms
    for number, rule, finding in sorted(wanted, key=lambda item: _turn(item[1], item[2], losing)):
        most = sum(claim.ms[1] for claim in finding.claims)
        # What no two runs could show is said once, where its rule means it whatever it costs.
        quiet = rule.name in said or finding.severity == "low"
        costs = finding.cost_ms is not None and finding.account == "call"
        unseen = quiet and costs and most < account.noise_ms
        if unseen and (not rule.fact or rule.name in said):
            continue
        settled = None if unseen else books.grant(finding, rule)
        if settled is None and rule.fact:
            settled = replace(finding, claims=(), cost_ms=None, share=None, severity="low")
        if settled is not None:
            said.add(rule.name)
            got[number] = (rule, asked[number][1], settled)
    return [got[number] for number in sorted(got)], books.account()


def _with_claims(finding: Finding) -> Finding:
    """A finding that only says what it costs claims that of the whole."""
    if finding.claims or not finding.cost_ms or finding.account == "remark":
        return finding
    return replace(finding, claims=(on_whole(finding.cost_ms, _OF_FINDING[finding.how]),))


def _turn(rule: Rule, finding: Finding, losing: bool) -> tuple[bool, int, bool, bool, bool, float]:
    """The sort key: who may claim first. Of a call that is slower than in eager what eager does better goes
    before what is as slow there; of mere places that in which eager was seen to take less goes before one
    that is far from a bound."""
    worst = max((_BEST_FIRST.index(claim.how) for claim in finding.claims), default=0)
    bound = rule.place_only and any(claim.over == "least" for claim in finding.claims)
    wide = any(_is_whole(claim) for claim in finding.claims)
    elsewhere = losing and not rule.place_only and rule.stage is not Stage.LOST
    return rule.place_only, worst, elsewhere, bound, wide, -sum(claim.ms[0] for claim in finding.claims)


def place_of(claim: Claim) -> object:
    """What the part that it is of is known by: a block, a launch or a name, which is empty for the whole."""
    if claim.block is not None:
        return claim.block
    return (claim.graph, claim.call) if claim.call is not None else claim.part


def _is_whole(claim: Claim) -> bool:
    return claim.block is None and claim.call is None and not claim.part


class _Books:
    """What is left of each part, of the call and of the run while claims are granted."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._parts = list(account.parts)
        self._of: dict[object, list[int]] = defaultdict(list)
        """Parts by block, by launch (several where its graph runs in several regions) and by name."""
        for number, part in enumerate(self._parts):
            keys = [part.block] if part.block is not None else [] if part.launches else [part.name]
            for key in (*keys, *part.launches):
                self._of[key].append(number)
        self._call, self._once = account.claimed_ms, account.once_claimed_ms

    def grant(self, finding: Finding, rule: Rule) -> Finding | None:
        """The finding with what is left for it; None where that is nothing, and for a mere place where it is
        not even half of what it asked for: others said why, and the rest stays unexplained. What they claim
        but are not sure of is no such answer where the rest is more than noise."""
        whole = self._account.once_ms if finding.account == "run" else self._account.ms
        if not finding.claims or whole is None:
            return replace(finding, claims=())
        before = list(self._parts), self._call, self._once
        granted = []
        for claim in finding.claims:
            got = [self._run(claim)] if finding.account == "run" else self._call_parts(claim, rule)
            granted += [item for item in got if item.ms[1] > 0]
        most = sum(claim.ms[1] for claim in granted)
        told = rule.place_only and 2 * most < sum(claim.ms[1] for claim in finding.claims)
        if not granted or (told and (most < self._account.noise_ms or self._surely_told(finding, before[0]))):
            self._parts, self._call, self._once = before
            return None
        cost = finding.cost_ms if finding.cost_ms is None else min(finding.cost_ms, most)
        share = finding.share
        if share is not None and finding.cost_ms and cost is not None:
            share *= cost / finding.cost_ms
        return replace(finding, claims=tuple(granted), cost_ms=cost, share=share)

    def _surely_told(self, finding: Finding, parts: Sequence[Part]) -> bool:
        """Whether others surely claim half of what blocks surely lost against eager; of other places yes."""
        blocks = [claim for claim in finding.claims if claim.block is not None and claim.over == "eager"]
        places = [number for claim in blocks for number in self._of.get(claim.block, [])]
        lost = sum(claim.ms[0] for claim in blocks)
        return not lost or 2 * sum(parts[number].claimed_ms[0] for number in places) > lost

    def _run(self, claim: Claim) -> Claim:
        got = _shrunk(claim, _left(self._account.once_ms, self._once))
        self._once = _plus(self._once, got.ms)
        return got

    def _call_parts(self, claim: Claim, rule: Rule) -> list[Claim]:
        """A claim of a part takes of the part and of the whole; a place that the account does not know is
        the whole."""
        numbers = self._of.get(place_of(claim), [])
        if not numbers:
            got = _shrunk(claim, _left(self._account.ms, self._call))
            self._call = _plus(self._call, got.ms)
            return [got]
        granted = []
        for number in numbers:
            part = self._parts[number]
            got = _shrunk(claim, min(_left(self._account.ms, self._call), _room(part, claim.over, rule)))
            got = _surely(got, part, rule)
            self._call = _plus(self._call, got.ms)
            self._parts[number] = replace(part, claimed_ms=_plus(part.claimed_ms, got.ms))
            granted.append(replace(got, block=part.block))
            claim = replace(claim, ms=(claim.ms[0] - got.ms[0], claim.ms[1] - got.ms[1]))
        return granted

    def account(self) -> Account:
        return replace(
            self._account,
            parts=tuple(self._parts),
            claimed_ms=self._call,
            once_claimed_ms=self._once,
        )


def _room(part: Part, over: Over, rule: Rule) -> float:
    """What can still be claimed of a part: its excess over eager, or over the least; what it took for less
    work."""
    most = part.over_eager_ms if over == "eager" else part.ms if rule.other_work else part.over_least_ms
    return max(most - part.claimed_ms[1], 0.0)


def _surely(claim: Claim, part: Part, rule: Rule) -> Claim:
    """What an estimate says that a part could do without at least: no more than it surely takes over the
    least, where that is known. It is not of a kernel that may need all of its time, whatever is known of
    what is short beside it."""
    guess = (claim.how, claim.over) == ("estimated", "least") and not rule.other_work
    if not guess or part.least_ms is None or part.least_ms[1] >= (1 - _SHORT) * part.ms:
        return claim
    sure = part.surely_over_least_ms(part.claimed_ms[0])
    return replace(claim, ms=(min(claim.ms[0], sure), claim.ms[1]))


def _left(whole: float | None, claimed: Interval) -> float:
    return max((whole or 0.0) - claimed[1], 0.0)


def _shrunk(claim: Claim, room: float) -> Claim:
    return replace(claim, ms=(min(claim.ms[0], room), min(claim.ms[1], room)))


def _plus(first: Interval, second: Interval) -> Interval:
    return first[0] + second[0], first[1] + second[1]
