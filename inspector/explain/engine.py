"""From a case to its explanation: every rule asked, findings ranked."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from inspector.analysis.ending import ending
from inspector.analysis.load import busy_text
from inspector.analysis.steady import MOST
from inspector.model.account import Account, Claim
from inspector.model.explain import Explanation, Finding, Host, Ledger, Quality
from inspector.model.ncu import NcuKernel
from inspector.model.problem import Problem
from inspector.model.replay import ReplayResult
from inspector.readers.locate import KIND_TEXT, NOT_IN
from inspector.readers.text import guarded

from .accounts import open_account
from .below import below
from .case import Case
from .claims import place_of, settle
from .doubts import profile_fits
from .gather import gather
from .ledger import host_part_ms, make_ledger
from .profiles import Profiles
from .rule import Rule, Stage, judged, level, louder, rank
from .rules import RULES
from .rules.healthy import healthy
from .rules.slower_than_eager import slower_than_eager
from .verdict import verdict
from .where import compile_call, places

if TYPE_CHECKING:
    from inspector.readers.run import Run


def explain(
    run: Run,
    results: Sequence[ReplayResult] = (),
    host: Host | None = None,
    profiles: Profiles | None = None,
    reports: Sequence[NcuKernel] = (),
) -> Explanation:
    """Why the run's compiled code is as slow or fast as it is. Reads, and executes nothing; see `gather`.

    What torch only stores belongs to no program and no call: nothing is said of it."""
    *_, whole = explained(run, results, host, profiles, reports)
    return whole


def explained(
    run: Run,
    results: Sequence[ReplayResult] = (),
    host: Host | None = None,
    profiles: Profiles | None = None,
    reports: Sequence[NcuKernel] = (),
) -> Iterator[Explanation]:
    """The same twice: without what stands below the kernels, for who only wants the answer, and whole."""
    if run.kind in NOT_IN:
        nothing = Ledger(None, None, (), None)
        yield Explanation(f"{KIND_TEXT[run.kind]}: nothing ran", nothing, remarks=(NOT_IN[run.kind],))
        return
    yield from _explained(gather(run, results, host, profiles, reports))


AS_EAGER = frozenset({"extern_dominated", "fallback_kernels"})
"""Rules of what takes most of a call and runs as in eager."""


def explain_case(case: Case) -> Explanation:
    """The whole for evidence that is at hand."""
    *_, whole = _explained(case)
    return whole


def _explained(case: Case) -> Iterator[Explanation]:
    ledger = make_ledger(case)
    failed: list[Problem] = []
    unseen = _behind_the_host(case)
    asked = [
        (rule, _maybe(finding) if unseen else finding)
        for rule in RULES
        for finding in _findings(rule, case, failed)
    ]
    settled, account = settle(open_account(case, ledger), asked)
    if (slower := slower_than_eager(case, account)) is not None:
        rest, account = settle(account, [slower])
        settled += rest
    noise = {"call": account.noise_ms, "run": case.once_noise_ms, "remark": 0.0}
    ranked = [
        (
            rule,
            _as_sure(
                _as_lost(judged(finding, asked, noise[finding.account]), case, rule, account),
                case,
                rule,
                account,
            ),
        )
        for rule, asked, finding in settled
    ]
    ranked.sort(key=lambda item: rank(item[1], _stage(item[0], item[1], account), case.times))
    findings = [finding for _, finding in ranked]
    worth = [finding for finding in findings if finding.severity != "low"]
    # What libraries and ATen do bounds a program, and is nothing to change: that is said, too, and last.
    quiet = slower is None and all(item.rule in AS_EAGER and not item.claims for item in worth)
    if case.graphs and quiet and (said := healthy(case, ledger, account)) is not None:
        findings.insert(len(findings) if worth else 0, said)
    answer = Explanation(
        verdict(case, findings),
        ledger,
        tuple(findings),
        _quality(case, ledger),
        (*_remarks(case), *map(str, (*case.problems, *failed))),
        case.sides,
        case.times.ratio,
        case.times.sized,
        account,
        places(case, account),
        case.times.outcome,
        compile_call(case),
        case.times.compiled,
        case.times.eager,
        case.times.again,
        case.times.meant.phase,
        case.times.only,
    )
    yield answer
    known = len(failed)
    below_them = tuple(_with_instruction(case, finding, failed) for finding in findings)
    yield replace(answer, findings=below_them, remarks=(*answer.remarks, *map(str, failed[known:])))


def _findings(rule: Rule, case: Case, failed: list[Problem]) -> Sequence[Finding]:
    """What a rule has found; where it could not judge what a damaged run says, that is a remark."""
    findings, problems = guarded(lambda: tuple(rule.find(case)), (), rule.name, "what it looks at")
    failed.extend(problems)
    return findings


def _behind_the_host(case: Case) -> bool:
    """Whether the device waits for the host for most of a call, launch by launch: that its kernels take less
    may then save nothing. Those of a CUDA graph are launched together, and wait for nobody."""
    side = case.sides.joined.compiled if case.sides is not None else None
    if side is None or not side.device or not profile_fits(case) or case.wall_ms <= 0:
        return False
    return not any(graph.cuda_graphs for graph in case.graphs) and host_part_ms(case) >= MOST * case.wall_ms


def _maybe(finding: Finding) -> Finding:
    """What it claims of kernels beyond what eager takes is no more than may be."""
    claims = tuple(
        replace(claim, ms=(0.0, claim.ms[1])) if claim.over == "least" and _of_kernels(claim) else claim
        for claim in finding.claims
    )
    return replace(finding, claims=claims)


def _of_kernels(claim: Claim) -> bool:
    return claim.block is not None or claim.call is not None


def _with_instruction(case: Case, finding: Finding, failed: list[Problem]) -> Finding:
    """The finding with where its reason stands below the kernel; damaged stages are a remark."""
    evidence, problems = guarded(lambda: below(case, finding), (), finding.rule, "its instructions")
    failed.extend(problems)
    return replace(finding, evidence=(*finding.evidence, *evidence))


def _as_lost(finding: Finding, case: Case, rule: Rule, account: Account) -> Finding:
    """The finding, as loud as what a call lost where it may be why most of that was lost: that the call lost
    it was measured, however sure the finding is. So why it lost stands before what else could be gained."""
    over = account.over_eager_ms
    knows = rule.stage is Stage.LOST and not rule.place_only
    if not knows or case.times.outcome != "slower" or over is None:
        return finding
    parts = {part.block: part.over_eager_ms for part in account.parts if part.block is not None}
    seen = [claim for claim in finding.claims if claim.how != "estimated"]
    explained = sum(
        min(claim.ms[1], max(parts.get(claim.block, 0.0), 0.0))
        if claim.block is not None
        else statistics.fmean(claim.ms) * (claim.over == "eager")
        for claim in seen
    )
    if finding.account != "call" or explained <= MOST * over:
        return finding
    return replace(finding, severity=louder(finding.severity, level(over, account.noise_ms)))


def _stage(rule: Rule, finding: Finding, account: Account) -> Stage:
    """Where the finding belongs. What knows why the compiler's code takes long, and is of blocks that lose as
    much against eager, is why these lose it, and stands among the places that do; a place of which others
    know as much as it does not stands behind them, and one that is slow where they know half as much."""
    stage = rule.stage_of(finding)
    if rule.place_only and stage in (Stage.LOST, Stage.CODE):
        own: dict[object, float] = {place_of(claim): claim.ms[1] for claim in finding.claims}
        own.pop("", None)
        claimed = [
            (sum(own.get(place, 0.0) for place in (part.block, *part.launches)), part.claimed_ms[1])
            for part in account.parts
        ]
        known = sum(most - mine for mine, most in claimed if mine)
        if stage is Stage.LOST:
            return Stage.CODE if own and known >= sum(own.values()) else stage
        return Stage.BOUND if own and known >= MOST * sum(own.values()) else stage
    if stage is not Stage.CODE:
        return stage
    lost: dict[object, float] = {}
    for part in account.parts:
        lost |= dict.fromkeys((part.block, *part.launches), max(part.over_eager_ms, 0.0))
    there = sum(min(claim.ms[0], lost.get(place_of(claim), 0.0)) for claim in finding.claims)
    return Stage.LOST if there > MOST * sum(claim.ms[0] for claim in finding.claims) else stage


def _as_sure(finding: Finding, case: Case, rule: Rule, account: Account) -> Finding:
    """The finding, no more severe than its evidence allows: a busy machine's times are none, nor is a profile
    of calls that took longer than the others, and an estimate is no better. Of a call that is slower than in
    eager a place that is not says little."""
    if rule.stage is Stage.VOID:
        return finding
    seen = case.sides is not None and case.sides.joined.compiled is not None
    profiled = any(claim.how in ("profiled", "estimated") for claim in finding.claims) and seen
    no_evidence = (
        case.busy
        or (case.machine.get("busy") and finding.how == "replayed")
        or (profiled and (case.profile_busy or not profile_fits(case)))
        or (rule.place_only and case.times.outcome == "slower" and _loses_nothing(finding, account))
    )
    return replace(finding, severity="medium") if no_evidence and finding.severity == "high" else finding


def _loses_nothing(finding: Finding, account: Account) -> bool:
    """Whether most of what it claims is of blocks that take no longer than in eager."""
    even = {
        part.block
        for part in account.parts
        if part.block is not None and part.eager_ms is not None and part.over_eager_ms <= account.noise_ms
    }
    there = sum(claim.ms[1] for claim in finding.claims if claim.block in even)
    return there > MOST * sum(claim.ms[1] for claim in finding.claims)


def _quality(case: Case, ledger: Ledger) -> Quality:
    if case.busy:
        return "busy"
    known = case.times.compiled_ms is not None and bool(ledger.parts)
    return "measured" if known and all(part.how == "measured" for part in ledger.parts) else "estimated"


def _remarks(case: Case) -> Iterator[str]:
    yield from filter(None, (busy_text(case.busy), ending(case.facts.manifest)))
    if case.profile_busy:
        yield f"while it was profiled {busy_text(case.profile_busy)}"
    reasons = case.machine.get("busy")
    if case.kernels_measured and isinstance(reasons, list):
        yield f"during the replay {busy_text([str(reason) for reason in reasons])}"
