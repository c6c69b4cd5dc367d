"""What a rule is, and how severe a cost makes a finding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import IntEnum

from inspector.analysis.steady import RUN_TO_RUN
from inspector.frozen import dataclass
from inspector.model.account import Claim
from inspector.model.explain import Evidence, Finding, FindingHow, Severity, Trial
from inspector.model.source import SourceLocation
from inspector.model.two_sides import Block
from inspector.units import duration

from .block_words import kernel_text
from .case import Case, Launch
from .times import Times

LOUD = 4.0
"""Times the noise: any two runs show such a difference, however they fall out."""

NEARLY_ALL = 0.8
"""Of a time, as of a graph's in the run: what is left of it for other launches can't be what is slow."""

_ORDER: dict[Severity, int] = {"high": 0, "medium": 1, "low": 2}


class Stage(IntEnum):
    """Which findings come first where severities are equal: what makes the others meaningless, where
    compiled code loses against eager, what the program does, what the compiler made of it, what remains
    as the limit."""

    VOID = 0
    LOST = 1
    PROGRAM = 2
    CODE = 3
    BOUND = 4


@dataclass(frozen=True, slots=True)
class Rule:
    """`find` gives the rule's findings for a case, none where it does not apply.

    A `place_only` one says where time goes and not why: who knows why comes first to the same milliseconds.
    One of `other_work` would have a part do less, or in another dtype: the least that it could take as it is
    bounds nothing of what such a rule claims. A `fact` is worth a line where it costs nothing, too. What
    one of `aside` finds is no part of a call.
    """

    name: str
    stage: Stage
    find: Callable[[Case], Iterable[Finding]]
    place_only: bool = False
    other_work: bool = False
    fact: bool = False
    aside: bool = False

    def stage_of(self, finding: Finding) -> Stage:
        """Where a finding of it belongs: what is loud aside of the calls is more than these could save, of
        what compiled code made that which claims nothing only says what remains, and what is known to be a
        small part of a call makes no others meaningless."""
        if self.aside and finding.severity == "high":
            return Stage.VOID
        if self.stage is Stage.VOID and finding.share is not None and finding.severity != "high":
            return Stage.PROGRAM
        remains = self.stage is Stage.CODE and finding.account == "call" and not finding.claims
        return Stage.BOUND if remains else self.stage


def level(ms: float, noise_ms: float) -> Severity:
    """How loud a cost is beside what two runs differ by anyway."""
    return "high" if ms >= LOUD * noise_ms > 0 else "medium" if ms >= noise_ms > 0 else "low"


def louder(first: Severity, second: Severity) -> Severity:
    """The worse of two."""
    return min(first, second, key=_ORDER.__getitem__)


def severity_of(share: float | None, at_most: Severity = "high", at_least: Severity = "low") -> Severity:
    """The severity that a share of the wall time stands for, within bounds."""
    severity: Severity = level(share, RUN_TO_RUN) if share is not None else "low"
    if _ORDER[severity] < _ORDER[at_most]:
        severity = at_most
    if _ORDER[severity] > _ORDER[at_least]:
        severity = at_least
    return severity


def judged(finding: Finding, asked: Finding, noise_ms: float) -> Finding:
    """A finding as loud as the least that it claims is beside the noise, where it `asked` for something. What
    its rule made of it beyond its cost, louder or quieter, stays."""
    if not finding.claims:
        return finding
    sure = level(sum(claim.ms[0] for claim in finding.claims), noise_ms)
    by_cost = severity_of(asked.share)
    severity = max(sure, asked.severity, key=_ORDER.__getitem__)
    if _ORDER[asked.severity] < _ORDER[by_cost]:
        severity = asked.severity
    return replace(finding, severity=severity)


def rank(finding: Finding, stage: Stage, times: Times) -> tuple[int, int, int, int, float]:
    """The sort key: worst first; of one severity what surely takes much of a call before what takes a little,
    but for what a slower call loses against eager, unless that is less than two runs differ by, and what
    remains as the limit. A remark is loud only where the program's own conclusion is wrong without it, and
    stands above all then, else below every cost of its severity. What the run paid once stands below what
    calls cost that are steady, and is no reason at all for one slower than in eager."""
    remark = finding.account == "remark" and stage is not Stage.VOID
    loud = remark and finding.severity == "high"
    once = finding.account == "run" and not times.recompiling
    order = max(_ORDER[finding.severity], int(once and times.outcome == "slower"))
    least = sum(claim.ms[0] for claim in finding.claims)
    level = _ORDER[finding.severity]
    if finding.account == "call" and finding.how != "estimated" and finding.share is not None:
        level = min(level, _ORDER[severity_of(finding.share)])
    lost = stage is Stage.LOST and times.outcome == "slower"
    if stage is Stage.LOST and not lost:
        stage = Stage.CODE
    if lost and finding.share is not None and finding.share < RUN_TO_RUN:
        much = _ORDER["low"]
    elif lost or stage is Stage.VOID:
        much = 0
    else:
        much = order if stage is Stage.BOUND else min(order, level)
    return order, 2 if remark and not loud else int(once), much, Stage.VOID if loud else stage, -least


def how_timed(launches: Iterable[Launch]) -> FindingHow:
    """What the times of these launches rest on, taken together."""
    launches = list(launches)
    if not all(launch.measured for launch in launches):
        return "estimated"
    return "measured" if all(launch.profiled_ms == launch.ms for launch in launches) else "replayed"


def about(ms: float, how: FindingHow = "estimated") -> str:
    """`34.4 us`, and `an estimated 34.4 us` of what nobody measured: for sentences."""
    return f"an estimated {duration(ms)}" if how == "estimated" else duration(ms)


def timed(launch: Launch, ms: float) -> str:
    """`34.4 us` or `34.4 us estimated`: for evidence."""
    return duration(ms) if launch.measured else f"{duration(ms)} estimated"


def source_evidence(case: Case, location: SourceLocation, text: str = "") -> Evidence:
    """A line of the user's, with its code where it is known."""
    lines = (program.line(location.line) for program in case.programs_of(location))
    code = location.code or next(filter(None, lines), "")
    return Evidence(location.path, location.line, text or code)


def block_evidence(case: Case, block: Block) -> tuple[Evidence, ...]:
    """Its line, and the kernel of either side that takes longest."""
    sides = case.sides.sources if case.sides is not None else ()
    sources = dict(zip(("eager", "compiled"), sides, strict=False))
    evidence = [source_evidence(case, line) for line in block.lines[:1]]
    for side, kernels in (("eager", block.eager_kernels), ("compiled", block.compiled_kernels)):
        evidence += (Evidence(sources.get(side, side), None, kernel_text(kernel)) for kernel in kernels[:1])
    return tuple(evidence)


def lost_finding(
    case: Case,
    blocks: Sequence[tuple[int, Block]],
    *,
    rule: str,
    title: str,
    advice: str,
    trial: Trial | None = None,
) -> Finding:
    """Blocks, with their places, in which compiled code loses against eager for one reason, the largest
    first: they claim their differences, as profiled, and no less than what they surely lost."""
    block = blocks[0][1]
    lost = sum(case.least_lost_ms(item) for _, item in blocks)
    share = case.share(lost)
    return Finding(
        rule=rule,
        severity=severity_of(share),
        title=title,
        graph=block.graph,
        cost_ms=lost,
        evidence=block_evidence(case, block),
        advice=advice,
        how="measured",
        share=share,
        trial=trial,
        claims=tuple(lost_claim(case, number, item, item.difference_ms) for number, item in blocks),
    )


def lost_claim(case: Case, number: int, block: Block, ms: float) -> Claim:
    """What compiled code lost against eager in a block, with its place: `ms` of it, as profiled, and no less
    than what it surely lost."""
    return Claim(number, "eager", (min(case.least_lost_ms(block), ms), ms), "profiled")
