"""Claims of findings: they add up, never overlap, and what nobody claims stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from explaining import bare, explained

from inspector.analysis.two_sides import two_sided_ledger
from inspector.explain import engine, explain
from inspector.explain.accounts import open_account
from inspector.explain.case import Case
from inspector.explain.claims import _surely, on_block, on_part, on_whole, settle
from inspector.explain.cpp_loops import loop_nests
from inspector.explain.doubts import profile_fits
from inspector.explain.engine import _as_lost, _as_sure, _stage, explain_case
from inspector.explain.gather import gather
from inspector.explain.least import Machine, least_of, machine_of
from inspector.explain.ledger import make_ledger
from inspector.explain.profiles import load_profiles
from inspector.explain.rule import Rule, Stage, judged, rank
from inspector.explain.rules import RULES
from inspector.explain.rules.healthy import _far_library, healthy
from inspector.explain.rules.slower_than_eager import slower_than_eager
from inspector.explain.times import Times
from inspector.explain.verdict import verdict
from inspector.model.account import HOST, Account, Claim, ClaimHow, Part
from inspector.model.calls import Outcome
from inspector.model.explain import Explanation, Finding, FindingOf, Host, Severity
from inspector.model.peaks import Peaks
from inspector.present.account import account_lines, loss_lines
from inspector.readers.run import Run

SAMPLES = Path(__file__).parent.parent / "sample_runs"
ROUNDING = 1e-9
OTHER_WORK = {rule.name for rule in RULES if rule.other_work}


def check(explanation: Explanation) -> None:
    """Each part's claims are those that findings make of it, and no more than it took; so is the whole."""
    account = explanation.account
    assert account is not None
    wall = account.ms or 0.0
    of_call = [(f, c) for f in explanation.findings if f.account == "call" for c in f.claims]
    if account.ms is not None:
        assert sum(claim.ms[1] for _, claim in of_call) == pytest.approx(account.claimed_ms[1])
        assert account.claimed_ms[1] <= wall + ROUNDING
    for finding, claim in of_call:
        assert 0 <= claim.ms[0] <= claim.ms[1]
        assert finding.cost_ms is not None and finding.cost_ms <= wall + ROUNDING
    for part in account.parts:
        mine = [claim for _, claim in of_call if is_of(claim, part)]
        assert sum(claim.ms[1] for claim in mine) == pytest.approx(part.claimed_ms[1])
        assert part.claimed_ms[1] <= max(part.ms, 0.0) + ROUNDING
        over = sum(claim.ms[1] for claim in mine if claim.over == "eager")
        assert over <= max(part.over_eager_ms, 0.0) + ROUNDING
        as_it_is = [c for f, c in of_call if f.rule not in OTHER_WORK and is_of(c, part)]
        assert sum(claim.ms[1] for claim in as_it_is) <= part.over_least_ms + ROUNDING
        assert part.over_eager_ms <= part.over_least_ms + ROUNDING or part.least_ms is None
    once = [c for f in explanation.findings if f.account == "run" for c in f.claims]
    assert sum(claim.ms[1] for claim in once) <= (account.once_ms or 0.0) + ROUNDING
    assert not [f for f in explanation.findings if f.account == "remark" and (f.claims or f.cost_ms)]
    if account.over_eager_ms is not None and account.unexplained_ms is not None:
        assert 0 <= account.unexplained_ms <= account.over_eager_ms


def is_of(claim: Claim, part: Part) -> bool:
    if claim.block is not None or part.block is not None:
        return claim.block == part.block
    if claim.call is not None:
        return (claim.graph, claim.call) in part.launches
    return not part.launches and claim.part == part.name


def test_claims_add_up_in_every_run_of_the_corpus(corpus_runs: list[Path]) -> None:
    for root in corpus_runs:
        check(explained(root))


@pytest.mark.parametrize("archive", sorted(SAMPLES.rglob("*.tar.xz")), ids=lambda path: path.parent.name)
def test_claims_add_up_in_every_sample(archive: Path) -> None:
    check(explained(archive))


@pytest.mark.parametrize("program", ["infer-default", "train-default", "train-reduce-overhead"])
def test_claims_add_up_where_both_sides_were_profiled(convmixer: Path, program: str) -> None:
    run = Run.open(convmixer / f"{program}.run")
    eager = convmixer / f"{program.partition('-')[0]}-eager.trace.json"
    profiles = load_profiles(run, convmixer / f"{program}.trace.json", eager)
    explanation = explain(run, (), None, profiles)
    check(explanation)
    assert explanation.account is not None
    (conv, *_) = (part for part in explanation.account.parts if part.block == 0)
    assert conv.claimed_ms[1] == pytest.approx(conv.over_eager_ms)
    assert conv.least_ms is not None and conv.least_ms[0] < conv.least_ms[1] <= (conv.eager_ms or 0.0)


# -- settled by hand

CAUSE, OTHER = Rule("cause", Stage.CODE, lambda case: ()), Rule("other", Stage.CODE, lambda case: ())
PLACE = Rule("place", Stage.LOST, lambda case: (), place_only=True)
LAUNCH = ("graph", 3)


def account() -> Account:
    return Account(
        10.0,
        6.0,
        0.5,
        (
            Part("conv2d", 5.0, "profiled", 1.0, 0, (LAUNCH,)),
            Part("gelu", 2.0, "profiled", 3.0, 1, (("graph", 4),)),
            Part(HOST, 2.0, "profiled", 1.5),
        ),
        once_ms=1000.0,
    )


def asking(*claims: Claim, cost: float | None = None, of: FindingOf = "call") -> Finding:
    most = sum(claim.ms[1] for claim in claims) if claims else cost
    return Finding("rule", "low", "title", None, most, (), "advice", "measured", claims=claims, account=of)


def settled(*asked: tuple[Rule, Finding]) -> tuple[dict[str, Finding], Account]:
    findings, after = settle(account(), asked)
    return {rule.name: finding for rule, _, finding in findings}, after


def test_a_fact_is_said_where_the_account_has_nothing_for_it() -> None:
    """DDP's own graph breaks were in no finding where a busy machine's profile left the host no part."""
    all_of_it = (OTHER, asking(on_part(HOST, 2.0, "measured")))
    asked = replace(asking(on_part(HOST, (1.0, 2.0), "estimated")), severity="high")
    assert "cause" not in settled(all_of_it, (CAUSE, asked))[0]
    got, after = settled(all_of_it, (replace(CAUSE, fact=True), asked))
    fact = got["cause"]
    assert (fact.severity, fact.cost_ms, fact.claims, fact.title) == ("low", None, (), "title")
    assert after.claimed_ms == (2.0, 2.0)


def test_better_evidence_goes_first_and_the_other_is_shrunk() -> None:
    guess, seen = asking(on_block(0, (1.0, 3.0), "estimated")), asking(on_block(0, 2.5, "profiled"))
    got, after = settled((CAUSE, guess), (OTHER, seen))
    assert got["other"].claims == (on_block(0, 2.5, "profiled"),)
    assert (got["cause"].claims[0].ms, got["cause"].cost_ms) == ((1.0, 1.5), 1.5)
    assert after.parts[0].claimed_ms == (3.5, 4.0) and after.unexplained_ms == 0.0


def test_a_cause_takes_the_place_of_a_mere_place() -> None:
    where, why = asking(on_block(0, 4.0, "profiled")), asking(on_block(0, (2.0, 4.0), "estimated"))
    got, _ = settled((PLACE, where), (CAUSE, why))
    assert list(got) == ["cause"]


def test_what_others_only_guess_leaves_the_place_where_most_was_lost() -> None:
    """4 ms lost; 1 to 3 guessed to go elsewhere: the place is said with what is left, beside its neighbour
    that surely has its cause, and not for less than noise."""
    where = asking(on_block(0, 4.0, "profiled"))
    for guess, left in (((1.0, 3.0), 1.0), ((2.5, 3.0), None), ((1.0, 3.8), None)):
        got, after = settled((PLACE, where), (CAUSE, asking(on_block(0, guess, "estimated"))))
        assert ("place" in got) == (left is not None) and after.parts[0].claimed_ms[1] <= 4.0
        assert left is None or got["place"].cost_ms == left


def test_over_eager_no_more_is_claimed_than_was_lost_there() -> None:
    got, after = settled((CAUSE, asking(on_block(1, 1.0, "profiled"))))
    assert not got and after.parts[1].claimed_ms == (0.0, 0.0)
    got, _ = settled((CAUSE, asking(on_block(1, 1.0, "profiled", "least"))))
    assert got["cause"].cost_ms == 1.0


def test_over_the_least_no_more_is_claimed_than_its_excess_but_for_less_work() -> None:
    bounded = account()
    part = replace(bounded.parts[0], least_ms=(0.8, 2.0))
    bounded = replace(bounded, parts=(part, *bounded.parts[1:]))
    asked = asking(on_block(0, (3.0, 5.0), "estimated", "least"))
    ((_, _, faster),), _ = settle(bounded, [(CAUSE, asked)])
    assert faster.claims[0].ms == (3.0, 4.2)
    ((_, _, less),), _ = settle(bounded, [(replace(CAUSE, other_work=True), asked)])
    assert less.claims[0].ms == (3.0, 5.0)
    # Over eager and over the least are of the same milliseconds.
    (_, (_, _, rest)), after = settle(
        bounded, [(CAUSE, asking(on_block(0, 3.5, "profiled"))), (OTHER, asked)]
    )
    assert rest.claims[0].ms[1] == pytest.approx(0.7)
    assert after.parts[0].claimed_ms[1] == pytest.approx(after.parts[0].over_least_ms)


def test_a_launch_is_its_block() -> None:
    claim = Claim(None, "least", (4.5, 4.5), "replayed", *LAUNCH)
    got, _ = settled((CAUSE, asking(claim)), (OTHER, asking(on_block(0, (0.0, 4.0), "estimated", "least"))))
    assert got["cause"].claims[0].block == 0
    assert got["other"].claims[0].ms == (0.0, 0.5)


def test_no_more_than_the_whole_call_is_claimed_of_whatever_parts() -> None:
    got, after = settled(
        (CAUSE, asking(on_whole(9.0, "measured"))), (OTHER, asking(on_part(HOST, 2.0, "profiled")))
    )
    assert (got["cause"].cost_ms, got["other"].cost_ms) == (9.0, 1.0)
    assert after.claimed_ms == (10.0, 10.0)


def test_without_claims_a_cost_is_of_the_whole_and_its_low_end_is_half_of_an_estimate() -> None:
    finding = Finding("rule", "low", "title", None, 3.0, (), "advice", "estimated")
    got, _ = settled((CAUSE, finding))
    assert got["cause"].claims == (on_whole((1.5, 3.0), "estimated"),)


def test_what_the_run_paid_once_is_an_account_of_its_own() -> None:
    got, after = settled((CAUSE, asking(cost=1500.0, of="run")), (OTHER, asking(cost=9.0)))
    assert (got["cause"].cost_ms, got["other"].cost_ms) == (1000.0, 9.0)
    assert after.once_claimed_ms == (1000.0, 1000.0) and after.claimed_ms == (9.0, 9.0)


def test_a_second_round_finds_what_the_first_one_left() -> None:
    _, after = settled((CAUSE, asking(on_whole(8.0, "measured"))), (CAUSE, asking(cost=900.0, of="run")))
    (late, once), after = settle(after, [(OTHER, asking(cost=5.0)), (OTHER, asking(cost=500.0, of="run"))])
    assert (late[2].cost_ms, once[2].cost_ms) == (2.0, 100.0)
    assert after.claimed_ms == (10.0, 10.0) and after.once_claimed_ms == (1000.0, 1000.0)


def test_a_remark_claims_nothing() -> None:
    got, after = settled((CAUSE, asking(of="remark")))
    assert got["cause"].claims == () and after.claimed_ms == (0.0, 0.0)


# -- how loud, and in which order


def test_an_estimate_is_sure_of_no_more_than_is_surely_over_the_least() -> None:
    """A kernel of 5 ms that may need 4 as it is: that 3 of them could be saved is no certainty, but where
    other work would do, or nothing is known of what it needs."""
    guess = asking(on_block(0, (3.0, 4.5), "estimated", "least"))

    def least(most: float | None, rule: Rule, finding: Finding = guess) -> float:
        part = replace(account().parts[0], eager_ms=None, least_ms=None if most is None else (0.1, most))
        ((_, _, got),) = settle(replace(account(), parts=(part,)), [(rule, finding)])[0]
        assert got.claims[0].ms[1] == 4.5
        return got.claims[0].ms[0]

    assert least(4.0, CAUSE) == 1.0
    assert least(5.0, CAUSE) == least(None, CAUSE) == least(4.0, replace(CAUSE, other_work=True)) == 3.0
    assert least(4.0, CAUSE, asking(on_block(0, (3.0, 4.5), "profiled", "least"))) == 3.0


def claiming(least: float, severity: Severity, share: float | None = None, of: FindingOf = "call") -> Finding:
    claims = (on_whole((least, 2 * least), "estimated"),) if least else ()
    return Finding(
        "rule", severity, "title", None, None, (), "advice", share=share, claims=claims, account=of
    )


@pytest.mark.parametrize(
    ("least", "severity"), [(0.4, "low"), (0.5, "medium"), (1.9, "medium"), (2.0, "high")]
)
def test_a_finding_is_as_loud_as_its_least_beside_the_noise(least: float, severity: Severity) -> None:
    asked = claiming(least, "high", share=0.3)
    assert judged(asked, asked, 0.5).severity == severity


def test_what_a_rule_makes_of_it_beyond_its_cost_stays() -> None:
    """A floor for what is wrong whatever it costs; a ceiling for what is meant."""
    floor = claiming(0.1, "medium", share=0.01)
    assert judged(floor, floor, 0.5).severity == "medium"
    ceiling = claiming(5.0, "low", share=0.5)
    assert judged(ceiling, ceiling, 0.5).severity == "low"


def test_remarks_stand_below_costs_but_for_a_wrong_conclusion() -> None:
    cost, remark = claiming(1.0, "medium"), claiming(0.0, "medium", of="remark")
    wrong, dear = claiming(0.0, "high", of="remark"), claiming(5.0, "high")
    order = sorted((remark, dear, cost, wrong), key=lambda item: rank(item, Stage.CODE, Times()))
    assert order == [wrong, dear, cost, remark]


def test_what_is_lost_by_less_than_two_runs_differ_by_stands_behind_what_takes_much() -> None:
    times = Times(10.0, 9.0, outcome="slower")
    much = Finding("awkward", "medium", "title", None, 6.0, (), "advice", "estimated", share=0.6)
    for share, first in ((0.02, "awkward"), (0.06, "faults"), (None, "faults")):
        lost = Finding("faults", "medium", "title", None, 0.2, (), "advice", "measured", share=share)
        order = sorted(
            ((lost, Stage.LOST), (much, Stage.PROGRAM)), key=lambda item: rank(item[0], item[1], times)
        )
        assert order[0][0].rule == first, share


def test_what_a_part_loses_stands_first_only_where_the_call_is_slower() -> None:
    """Drawn places lost 5.78 of 54 ms, a sort that eager has too could save 18.8: runs differed on both."""
    lost, much = replace(claiming(5.8, "medium"), rule="lost"), replace(claiming(18.8, "medium"), rule="sort")
    cases: dict[Outcome, str] = {"slower": "lost", "unknown": "sort", "same": "sort", "faster": "sort"}
    for outcome, first in cases.items():
        times = Times(54.0, 46.0, outcome=outcome)
        order = sorted(
            ((lost, Stage.LOST), (much, Stage.CODE)), key=lambda item: rank(item[0], item[1], times)
        )
        assert order[0][0].rule == first, outcome


# -- there is always an answer


def test_a_call_that_lost_says_where_and_what_it_is_not(profiled_convmixer: Path) -> None:
    """The depthwise convolutions' kernel, were its name no other library's: 4 of 4.2 ms are there."""
    case = gather(Run.open(profiled_convmixer))
    assert case.sides is not None
    times = replace(case.times, eager_ms=1.6, compiled_ms=5.8, outcome="slower")
    sides = replace(case.sides, ledger=two_sided_ledger(case.sides.joined, 1.6, 5.8))
    case = replace(case, times=times, sides=sides)
    nobody = open_account(case, make_ledger(case))
    found = slower_than_eager(case, nobody)
    assert found is not None
    _, finding = found
    assert finding.severity == "high"
    assert finding.title.startswith("a call takes 4.20 ms more than in eager, 4.1")
    assert "of it at models.py:16 blocks.*.dw conv2d x4: 1.09 ms in eager, 5.2" in finding.title
    assert finding.title.endswith("; not the host nor any other block")
    assert finding.claims[0].block == 0 and finding.cost_ms == pytest.approx(4.2)
    explained = replace(nobody, parts=(replace(nobody.parts[0], claimed_ms=(4.0, 4.0)), *nobody.parts[1:]))
    explained = replace(explained, claimed_ms=(4.0, 4.0))
    assert slower_than_eager(case, explained) is None
    # What others only guess to take explains it in the middle of what they guess.
    for guess, said in (((0.0, 4.0), True), ((2.0, 4.0), False)):
        parts = (replace(nobody.parts[0], claimed_ms=guess), *nobody.parts[1:])
        left = slower_than_eager(case, replace(nobody, parts=parts, claimed_ms=guess))
        assert (left is not None) == said
        known = "a call takes 4.20 ms more than in eager, of which 2.20 ms have no known cause, "
        assert left is None or left[1].title.startswith(known)
    same = replace(case, times=replace(times, outcome="same"))
    assert slower_than_eager(same, nobody) is None


def test_graphs_that_no_profiled_call_has_run_as_often_as_others_leave_open(
    profiled_convmixer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = gather(Run.open(profiled_convmixer))
    assert whole.sides is not None and {graph.runs for graph in whole.graphs} == {1.0}
    none = replace(whole.sides, joined=replace(whole.sides.joined, runs=()))
    monkeypatch.setattr("inspector.explain.gather.compare", lambda *_: none)
    monkeypatch.setattr("inspector.explain.gather.runs_elsewhere", lambda *_: 7.0)
    assert {graph.runs for graph in gather(Run.open(profiled_convmixer)).graphs} == {7.0}


@pytest.mark.parametrize("how", ["profiled", "estimated"])
def test_an_estimate_is_no_surer_than_a_profile_of_slower_calls(
    how: ClaimHow, profiled_convmixer: Path
) -> None:
    case = gather(Run.open(profiled_convmixer))
    account = open_account(case, make_ledger(case))
    finding = replace(asking(on_block(0, 2.0, how, "least")), severity="high")
    assert _as_sure(finding, case, CAUSE, account).severity == "high"
    shorter = replace(case, times=replace(case.times, compiled_ms=0.5))
    assert _as_sure(finding, shorter, CAUSE, account).severity == "medium"


def test_where_nothing_is_lost_is_no_reason_for_a_slower_call(profiled_convmixer: Path) -> None:
    """A place that takes more than it must is loud, but not before what takes longer than in eager."""
    case = gather(Run.open(profiled_convmixer))
    assert case.sides is not None
    sides = replace(case.sides, ledger=two_sided_ledger(case.sides.joined, 1.6, 5.8))
    times = replace(case.times, eager_ms=1.6, compiled_ms=5.8, outcome="slower")
    case = replace(case, times=times, sides=sides)
    account = open_account(case, make_ledger(case))
    worse = next(part for part in account.parts if part.block is not None and part.over_eager_ms > 1.0)
    even = next(
        part for part in account.parts if part.block is not None and part.eager_ms and part.over_eager_ms <= 0
    )
    for part, severity in ((worse, "high"), (even, "medium")):
        finding = replace(asking(on_block(part.block or 0, 2.0, "profiled", "least")), severity="high")
        assert _as_sure(finding, case, PLACE, account).severity == severity
    assert _as_sure(finding, case, CAUSE, account).severity == "high"


def test_what_failed_in_a_small_part_of_a_call_stands_where_the_program_does() -> None:
    """A rest in eager of 6 % stood before subnormal numbers of up to 78."""
    rule = Rule("compile_failed", Stage.VOID, CAUSE.find)
    assert rule.stage_of(claiming(0.0, "medium", share=0.06)) is Stage.PROGRAM
    assert rule.stage_of(claiming(0.0, "high", share=0.94)) is Stage.VOID
    assert rule.stage_of(claiming(0.0, "medium")) is Stage.VOID


def test_what_knows_why_a_block_loses_stands_among_the_places_that_do() -> None:
    """Threads that start in loops took 113 of 138 ms lost, a convolution 12.5, why nobody knew, which stood
    first; and a place of which others know more than it does not stands behind them."""
    parts = (
        Part("threads", 114.0, "profiled", 1.0, 0, (("g", 3),), claimed_ms=(31.0, 113.0)),
        Part("convolution", 38.1, "profiled", 25.6, 1, claimed_ms=(12.5, 12.5)),
        Part("even", 40.0, "profiled", 40.0, 2),
        Part("the host", 90.0, "profiled", 20.0),
    )
    account = Account(248.0, 110.0, 5.0, parts)
    code, place = Rule("code", Stage.CODE, CAUSE.find), Rule("place", Stage.LOST, CAUSE.find, place_only=True)

    def stage(rule: Rule, *claims: Claim) -> Stage:
        return _stage(rule, asking(*claims), account)

    of_launch = Claim(None, "least", (31.0, 113.0), "estimated", "g", 3)
    assert (
        stage(code, of_launch) is stage(code, on_block(0, (31.0, 113.0), "estimated", "least")) is Stage.LOST
    )
    assert stage(code, replace(of_launch, call=4)) is Stage.CODE
    assert stage(code, on_block(2, 9.0, "profiled", "least")) is Stage.CODE
    assert stage(code, on_whole(50.0, "measured", "eager")) is Stage.CODE
    # A place that is slow, of which others know half as much as it claims: it stands behind them.
    slow = replace(code, place_only=True)
    assert stage(slow, of_launch) is Stage.CODE
    for mine, behind in ((75.0, True), (76.0, False)):
        claims = (replace(of_launch, ms=(0.0, mine)), Claim(None, "least", (0.0, 1.0), "profiled", "g", 9))
        assert (stage(slow, *claims) is Stage.BOUND) == behind
    assert stage(place, on_block(1, 12.5, "profiled")) is Stage.LOST
    # Of 113 ms that are claimed 40 are its own, of another 113 all but 40.
    assert stage(place, on_block(0, 40.0, "profiled")) is Stage.CODE
    assert stage(place, on_block(0, 73.0, "profiled")) is Stage.LOST
    both = (on_block(0, 40.0, "profiled"), on_whole(90.0, "measured", "eager"))
    assert stage(place, *both) is Stage.CODE, "of its block: what the whole call lost is no place"
    assert stage(place, on_whole(12.5, "measured", "eager")) is Stage.LOST


def test_findings_stand_where_their_blocks_lose(
    profiled_convmixer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = gather(Run.open(profiled_convmixer))
    assert case.sides is not None
    sides = replace(case.sides, ledger=two_sided_ledger(case.sides.joined, 1.6, 5.8))
    times = replace(case.times, eager_ms=1.6, compiled_ms=5.8, outcome="slower")
    case = replace(case, times=times, sides=sides)
    parts = [part for part in open_account(case, make_ledger(case)).parts if part.block is not None]
    worse = max(parts, key=lambda part: part.over_eager_ms)
    other = max((part for part in parts if part is not worse), key=lambda part: part.ms)
    code, place = (
        replace(asking(on_block(part.block or 0, ms, "profiled", "least")), rule=name, severity="medium")
        for name, part, ms in (("code", worse, 0.9), ("place", other, other.ms))
    )
    rules = (
        Rule("place", Stage.LOST, lambda _case: (place,), place_only=True),
        Rule("code", Stage.CODE, lambda _case: (code,)),
    )
    monkeypatch.setattr(engine, "RULES", rules)
    told = {item.rule: item.severity for item in explain_case(case).findings}
    assert told["code"] == told["place"] == "medium"
    assert list(told).index("code") < list(told).index("place")


def test_why_a_call_loses_stands_before_what_could_be_gained(profiled_convmixer: Path) -> None:
    """Half of what the call lost has this cause: as loud as that, whatever it is sure of. Its neighbours are
    a rule of gains, one that explains little, a guess, a mere place, and a call that loses nothing."""
    case = gather(Run.open(profiled_convmixer))
    assert case.sides is not None
    sides = replace(case.sides, ledger=two_sided_ledger(case.sides.joined, 1.6, 5.8))
    times = replace(case.times, eager_ms=1.6, compiled_ms=5.8, outcome="slower")
    case = replace(case, times=times, sides=sides)
    account = open_account(case, make_ledger(case))
    worse = next(part for part in account.parts if part.block is not None and part.over_eager_ms > 3.0)
    number = worse.block or 0
    lost = Rule("cause", Stage.LOST, CAUSE.find)
    gain = Rule("gain", Stage.CODE, CAUSE.find)
    most = replace(asking(on_block(number, (0.5, 5.0), "profiled", "least")), severity="medium")
    little = replace(asking(on_block(number, (0.5, 1.0), "profiled", "least")), severity="medium")
    guess = replace(asking(on_block(number, (0.5, 5.0), "estimated", "least")), severity="medium")
    assert _as_lost(most, case, lost, account).severity == "high"
    assert {_as_lost(item, case, lost, account).severity for item in (little, guess)} == {"medium"}
    assert _as_lost(most, case, gain, account).severity == "medium"
    assert _as_lost(most, case, replace(lost, place_only=True), account).severity == "medium"
    even = replace(case, times=replace(times, outcome="same"))
    assert _as_lost(most, even, lost, account).severity == "medium"
    loud = replace(asking(on_block(number, 5.0, "profiled", "least")), severity="high")
    assert rank(_as_lost(most, case, lost, account), Stage.LOST, times) < rank(loud, Stage.CODE, times)


def test_a_place_is_not_said_where_causes_explain_most_of_it() -> None:
    where, why = asking(on_block(0, 4.0, "profiled")), asking(on_block(0, 3.0, "replayed"))
    got, after = settled((PLACE, where), (CAUSE, why))
    assert list(got) == ["cause"] and after.parts[0].claimed_ms == (3.0, 3.0)
    little = asking(on_block(0, 1.0, "replayed"))
    got, after = settled((PLACE, where), (CAUSE, little))
    assert got["place"].cost_ms == 3.0 and after.parts[0].claimed_ms == (4.0, 4.0)


def test_of_places_that_in_which_eager_took_less_is_said() -> None:
    """A kernel far from a bound claims more than the same kernel's block against eager."""
    bound = asking(Claim(None, "least", (4.5, 4.9), "profiled", *LAUNCH))
    far = Rule("far", Stage.CODE, lambda case: (), place_only=True)
    got, _ = settled((far, bound), (PLACE, asking(on_block(0, 4.0, "profiled"))))
    assert list(got) == ["place"]


def outside(name: str, ms: float, eager_ms: float, number: int) -> Part:
    return Part(f"{name} outside the graphs", ms, "profiled", eager_ms, number)


def test_what_is_ruled_out_is_no_list_of_operators(softmax: Case) -> None:
    parts = [outside(f"aten::{name}", 0.1, 0.1, number) for number, name in enumerate("abcdefgh")]
    lost = outside("aten::lstm", 9.0, 4.0, 8)
    whole = Account(10.0, 6.0, 0.5, (*parts, lost, Part(HOST, 0.2, "profiled", 0.2)))
    times = Times(compiled_ms=10.0, eager_ms=6.0, outcome="slower")
    found = slower_than_eager(replace(softmax, times=times), whole)
    assert found is not None
    _, finding = found
    lstm = "aten::lstm outside the graphs: 4.00 ms in eager, 9.00 ms compiled"
    rest = "not other operators outside of graphs nor the host"
    # It lost 5 ms, of which others won one back.
    assert finding.title == f"a call takes 4.00 ms more than in eager, most of it lost at {lstm}; {rest}"


# -- the least that it could take, and what is healthy

PEAKS = Peaks("this", "measured", 10e9, {"float32": 100e9})
MACHINE = Machine(PEAKS, "counted")


@pytest.fixture(scope="module")
def softmax(corpus: Path) -> Case:
    """A product and a softmax, of 1 ms each: 0.8 ms of the library's arithmetic, 8 MB at 10 GB/s."""
    case = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    (graph,) = case.graphs
    launches = tuple(
        replace(
            item,
            ms=1.0,
            measured=True,
            bytes=8_000_000 if item.role == "generated" else 80_000,
            flops=80_000_000 if item.role == "library" else None,
            expected_ms=0.1,
            in_vectors_ms=0.1,
        )
        for item in graph.launches
    )
    times = Times(2.05, 3.0, "compiled run", 1000, 999, cold_ms=100.0, outcome="faster")
    graph = replace(graph, launches=launches, in_process_ms=2.05)
    return replace(case, graphs=(graph,), times=times, machine={"peaks": {"cpu": PEAKS.to_json()}})


def test_the_least_is_bytes_and_arithmetic_at_what_the_machine_reaches(softmax: Case) -> None:
    (graph,) = softmax.graphs
    library, generated = (
        next(item for item in graph.launches if item.role == role) for role in ("library", "generated")
    )
    assert least_of(MACHINE, graph, library) == ((pytest.approx(0.8), 1.0), "compute")
    (low, high), bound = least_of(MACHINE, graph, generated)
    assert (low, high, bound) == (pytest.approx(0.8), 1.0, "memory")
    (low, high), _ = least_of(MACHINE, graph, replace(generated, bytes=2_000_000))
    assert (low, high) == (pytest.approx(0.2), pytest.approx(0.4, abs=0.01))
    (_, high), _ = least_of(MACHINE, graph, replace(generated, bytes=2_000_000, in_vectors_ms=0.3))
    assert high == pytest.approx(0.6, abs=0.01), "its arithmetic is an estimate, within a factor of two"
    assert machine_of(softmax) == MACHINE
    unmeasured = replace(softmax, machine={})
    assert machine_of(unmeasured).how == "estimated"
    here = replace(PEAKS, threads=2)
    host = Host("here", 2, {}, (replace(here, threads=4), here))
    assert machine_of(replace(unmeasured, host=host, threads=2)).peaks == here
    assert machine_of(replace(unmeasured, host=host, threads=3)).peaks is None


def test_healthy_says_the_figures_that_show_it(softmax: Case) -> None:
    (graph,) = softmax.graphs
    launches = tuple(
        replace(item, ms=0.1 if item.role == "library" else 1.9, bytes=16_000_000) for item in graph.launches
    )
    memory = replace(softmax, graphs=(replace(graph, launches=launches),))
    (first, *_) = explain_case(memory).findings
    assert first.rule == "healthy"
    assert first.title.endswith(
        "bounded by memory: generated code moves 16.0 MB in 1.90 ms: "
        "8.42 GB/s of the 10.0 GB/s that this machine reaches"
    )


def test_what_was_not_shown_is_not_called_healthy(softmax: Case) -> None:
    (graph,) = softmax.graphs
    times = replace(softmax.times, compiled_ms=2.55)
    unexplained = replace(softmax, times=times, graphs=(replace(graph, in_process_ms=2.5),))
    times = replace(softmax.times, compiled_ms=None, eager_ms=None, outcome="unknown")
    for case, said in (
        (unexplained, "of 2.55 ms a call are not explained"),
        (replace(softmax, times=times), "was not measured"),
    ):
        names = {item.rule: item.title for item in explain_case(case).findings}
        assert "healthy" not in names and said in names["nothing_found"]


def test_nothing_is_healthy_that_is_slower_than_eager(softmax: Case) -> None:
    slower = replace(softmax.times, eager_ms=1.8, outcome="slower")
    names = [item.rule for item in explain_case(replace(softmax, times=slower)).findings]
    assert names and not {"healthy", "nothing_found"} & set(names)


def test_a_kernel_far_from_its_bytes_claims_what_it_takes_over_them(softmax: Case) -> None:
    """0.2 ms of bytes in 1 ms: 0.6 are certain, as such kernels reach half of the rate; 0.8 are the most."""
    (graph,) = softmax.graphs
    launches = tuple(replace(item, bytes=2_000_000) for item in graph.launches)
    result = explain_case(replace(softmax, graphs=(replace(graph, launches=launches),)))
    (slow,) = (item for item in result.findings if item.rule == "slow_kernel")
    assert slow.claims[0].ms == (pytest.approx(0.6, abs=0.01), pytest.approx(0.8))
    assert slow.title.startswith("cpp_fused")
    assert "moves 2.00 MB in 1.00 ms: 2.00 GB/s of the 10.0 GB/s that this machine reaches" in slow.title


def test_a_slow_kernel_whose_vectors_are_hardly_filled_is_told_why(softmax: Case) -> None:
    """A last dimension of 4 in steps of 16; none that ends at 12, goes on, or is the rest of a longer one."""
    head = "for(int64_t {0}=static_cast<int64_t>({1}L); {0}<static_cast<int64_t>({2}L); {0}+={3}L)\n{{\n"
    body = "auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + x1 + 4L*x0, 4);\n}\n}\n"
    (graph,) = softmax.graphs
    for start, end, said in ((0, 4, True), (0, 12, False), (0, 64, False), (16, 20, False)):
        kernel = head.format("x0", 0, 1500, 1) + head.format("x1", start, end, 16) + body
        assert (loop_nests(kernel)[0].filled is not None) == (start == 0 and end < 16)
        launches = tuple(
            replace(
                item,
                bytes=2_000_000,
                kernel=replace(item.kernel, source=kernel) if item.kernel is not None else None,
            )
            for item in graph.launches
        )
        result = explain_case(replace(softmax, graphs=(replace(graph, launches=launches),)))
        (slow,) = (item for item in result.findings if item.rule == "slow_kernel")
        assert ("with 4 elements in vectors that hold 16" in slow.title) == said
        assert ("[4, n] rather than [n, 4]" in slow.advice) == said
        assert any("a loop by vectors of 16 elements over 4" in item.text for item in slow.evidence) == said
    # Channels that lie apart, as where they are laid last for a convolution: the last dimension is long.
    kernel = head.format("x0", 0, 1500, 1) + head.format("x1", 0, 4, 16) + body
    cases = (("x1 + 4L*x0", True), ("x0 + 1500L*x1", False), ("x0 + 15L*x1_inner", False))
    for places, side_by_side in cases:
        assert (loop_nests(kernel.replace("x1 + 4L*x0", places))[0].filled is not None) == side_by_side


def test_a_kernel_that_fetches_single_elements_may_be_as_long_as_it_is(
    softmax: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows what such fetches have to take: perhaps nothing is won, at most all beyond the bytes."""
    for module in ("least", "rules.slow_kernel"):
        monkeypatch.setattr(f"inspector.explain.{module}.gathers", lambda leaf: True)
    (graph,) = softmax.graphs

    def told(count: int) -> list[tuple[float, float]]:
        launches = tuple(replace(item, bytes=count) for item in graph.launches)
        result = explain_case(replace(softmax, graphs=(replace(graph, launches=launches),)))
        slow = [item for item in result.findings if item.rule == "slow_kernel"]
        assert all(", as it fetches elements by index" in item.title for item in slow)
        return [item.claims[0].ms for item in slow]

    assert told(2_000_000) == [(0.0, pytest.approx(0.8))]
    assert not told(4_000_000), "within a factor of four of its bytes"


def test_of_what_no_two_runs_could_show_the_largest_is_said() -> None:
    asked = [(CAUSE, asking(on_block(0, ms, "profiled"))) for ms in (0.1, 0.3, 1.0, 0.2)]
    findings, after = settle(account(), asked)
    assert [finding.cost_ms for _, _, finding in findings] == [1.0]
    assert after.parts[0].claimed_ms == (1.0, 1.0)
    findings, _ = settle(account(), asked[:2])
    assert not findings
    # But where its rule means it whatever it costs.
    loud = [(rule, replace(finding, severity="medium")) for rule, finding in asked[:2]]
    assert [finding.cost_ms for _, _, finding in settle(account(), loud)[0]] == [0.3]


def test_what_the_run_paid_once_is_no_reason_for_a_slow_call() -> None:
    call, once = claiming(1.0, "high"), claiming(1000.0, "high", of="run")
    some = claiming(1.0, "medium")

    def order(times: Times) -> list[Finding]:
        return sorted((once, some, call), key=lambda item: rank(item, Stage.CODE, times))

    assert order(Times()) == [call, once, some]
    assert order(Times(outcome="slower")) == [call, some, once]
    assert order(Times(outcome="slower", recompiling=True)) == [once, call, some]


def test_a_verdict_speaks_of_the_call_and_then_of_the_run() -> None:
    of_run = replace(claiming(1000.0, "medium", of="run"), title="f is compiled again; 1.00 s in all: 0/0")
    case = bare(Times(2.0, 4.0, outcome="faster"))
    said = verdict(case, [claiming(1.0, "medium"), of_run])
    assert said == "2.00x faster than eager: title; advice; of the run, f is compiled again; 1.00 s in all"
    assert verdict(case, [of_run]).startswith("2.00x faster than eager once steady: f is compiled again")


def test_what_is_over_the_least_and_nobodys_stays_visible(softmax: Case) -> None:
    """1 ms for 0.2 ms of bytes, of which at most 0.4 are usual; a claim of 0.5 leaves 0.1."""
    (graph,) = softmax.graphs
    launches = tuple(replace(item, bytes=2_000_000) for item in graph.launches)
    case = replace(softmax, graphs=(replace(graph, launches=launches),))
    nobody = open_account(case, make_ledger(case))
    assert nobody.left_ms == pytest.approx(0.6, abs=0.01)
    kernel = next(part for part in nobody.parts if part.name.startswith("cpp"))
    graph_name, call = kernel.launches[0]
    half = asking(Claim(None, "least", (0.5, 0.5), "replayed", graph_name, call))
    after = settle(nobody, [(CAUSE, half)])[1]
    assert after.left_ms == pytest.approx(0.1, abs=0.01)
    assert [line.text for line in loss_lines(nobody, 80)] == [
        "  597 us more than its kernels need stay unexplained"
    ]
    said = healthy(case, make_ledger(case), nobody)
    assert said is not None and said.rule == "nothing_found"
    assert "its kernels take 597 us a call more than they need, most of it at cpp" in said.title


def test_library_calls_far_from_what_they_need_are_not_called_healthy(softmax: Case) -> None:
    """A convolution of one channel: 235 Gflop/s where the machine reaches 50,000."""
    (graph,) = softmax.graphs
    told = {}
    for flops in (1, 10**12):
        calls = tuple(
            replace(item, role="library", bytes=2_000, flops=flops, ms=1.0) for item in graph.launches
        )
        case = replace(softmax, graphs=(replace(graph, launches=calls),))
        said = healthy(case, make_ledger(case), replace(open_account(case, make_ledger(case)), parts=()))
        assert said is not None
        told[flops] = said
    assert told[1].rule == "nothing_found" and "its library calls take" in told[1].title
    assert told[1].advice.startswith("give the library other sizes")
    assert "library calls take" not in told[10**12].title
    # A kernel of a few microseconds takes what a launch takes at least.
    for ms, far in ((0.03, False), (0.3, True)):
        short = tuple(replace(item, role="library", bytes=2_000, flops=1, ms=ms) for item in graph.launches)
        assert bool(_far_library(replace(softmax, graphs=(replace(graph, launches=short),)))) == far


def test_a_profile_of_a_slower_machine_says_nothing_of_what_kernels_take(convmixer: Path) -> None:
    """5.4 ms of work do not fit into a call of 2 ms."""
    run = Run.open(convmixer / "infer-default.run")
    traces = (convmixer / "infer-default.trace.json", convmixer / "infer-eager.trace.json")
    case = gather(run, (), None, load_profiles(run, *traces))
    assert profile_fits(case)
    slow = replace(case, times=replace(case.times, compiled_ms=2.0))
    assert not profile_fits(slow)
    result = explain_case(slow)
    assert result.findings[0].rule == "library_kernel_differs" and result.findings[0].severity == "medium"
    assert not [item for item in result.findings if item.rule == "slow_kernel"]
    assert result.account is not None and {part.least_ms for part in result.account.parts} == {None}


# -- shown


@pytest.mark.parametrize("width", [80, 100, 160])
def test_each_part_has_its_three_figures_and_what_is_claimed(softmax: Case, width: int) -> None:
    (graph,) = softmax.graphs
    launches = tuple(replace(item, bytes=2_000_000) for item in graph.launches)
    explanation = explain_case(replace(softmax, graphs=(replace(graph, launches=launches),)))
    lines = [line.text for line in account_lines(explanation.account, width)]
    assert all(len(line) <= width for line in lines)
    head = next(line for line in lines if "by part" in line)
    assert head.split() == ["by", "part", "took", "eager", "at", "least", "claimed", "left"]
    (kernel,) = (line for line in lines if "200..403 us" in line)
    assert kernel.split()[0].startswith("cpp") and "597..800 us" in kernel
    assert not list(loss_lines(explanation.account, width)), "no slower than eager"


def test_a_rounding_error_is_no_sure_gain() -> None:
    """The least that a part could take is what it took, but for a float's last digit: it is not known, and
    the estimate is as good as it was."""
    part = Part("mm", 0.3, "profiled", least_ms=(0.1, 0.3 - 1e-16))
    claim = Claim(None, "least", (0.1, 0.2), "estimated")
    rule = Rule("some", Stage.CODE, lambda case: ())
    assert part.least_ms is not None and 0 < part.ms - part.least_ms[1] < 1e-12
    assert part.surely_over_least_ms(0.0) == 0.0 and _surely(claim, part, rule).ms == (0.1, 0.2)


@pytest.mark.parametrize(("most", "low"), [(10.0, 4.0), (9.999, 4.0), (9.9, 0.1), (8.0, 2.0)])
def test_what_may_need_all_of_its_time_is_no_bound_for_an_estimate(most: float, low: float) -> None:
    """Beside a kernel that may, one of microseconds that is known leaves the sum not known."""
    part = Part("a", 10.0, "profiled", block=3, least_ms=(1.0, most))
    claim = Claim(3, "least", (4.0, 8.0), "estimated")
    rule = Rule("cpu_not_vectorized", Stage.CODE, lambda _: ())
    assert _surely(claim, part, rule).ms == (pytest.approx(low), 8.0)
