"""Claims of findings: they add up, never overlap, and what nobody claims stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from explaining import explained

from inspector.explain.accounts import open_account
from inspector.explain.claims import on_block, on_part, on_whole, settle
from inspector.explain.gather import gather
from inspector.explain.ledger import make_ledger
from inspector.explain.rule import Rule, Stage, judged, rank
from inspector.explain.rules.slower_than_eager import slower_than_eager
from inspector.model.account import HOST, Account, Claim, Part
from inspector.model.explain import Explanation, Finding, FindingOf, Severity
from inspector.readers.run import Run

SAMPLES = Path(__file__).parent.parent / "sample_runs"
ROUNDING = 1e-9


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


def test_over_eager_no_more_is_claimed_than_was_lost_there() -> None:
    got, after = settled((CAUSE, asking(on_block(1, 1.0, "profiled"))))
    assert not got and after.parts[1].claimed_ms == (0.0, 0.0)
    got, _ = settled((CAUSE, asking(on_block(1, 1.0, "profiled", "least"))))
    assert got["cause"].cost_ms == 1.0


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


def test_a_remark_claims_nothing() -> None:
    got, after = settled((CAUSE, asking(of="remark")))
    assert got["cause"].claims == () and after.claimed_ms == (0.0, 0.0)


# -- how loud, and in which order


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
    order = sorted((remark, dear, cost, wrong), key=lambda item: rank(item, Stage.CODE))
    assert order == [wrong, dear, cost, remark]


# -- there is always an answer


def test_a_call_that_lost_says_where_and_what_it_is_not(profiled_convmixer: Path) -> None:
    """The depthwise convolutions' kernel, were its name no other library's: 4 of 4.2 ms are there."""
    case = gather(Run.open(profiled_convmixer))
    assert case.sides is not None
    times = replace(case.times, eager_ms=1.6, compiled_ms=5.8, outcome="slower")
    case = replace(case, times=times)
    nobody = open_account(case, make_ledger(case))
    finding = slower_than_eager(case, nobody)
    assert finding is not None and finding.severity == "high"
    assert finding.title.startswith("a call takes 4.20 ms more than in eager, 4.1")
    assert "of it at models.py:16 blocks.*.dw conv2d x4: 1.09 ms in eager, 5.2" in finding.title
    assert finding.title.endswith("; not the host nor any other block")
    assert finding.claims[0].block == 0 and finding.cost_ms == pytest.approx(4.2)
    explained = replace(nobody, parts=(replace(nobody.parts[0], claimed_ms=(4.0, 4.0)), *nobody.parts[1:]))
    explained = replace(explained, claimed_ms=(4.0, 4.0))
    assert slower_than_eager(case, explained) is None
    same = replace(case, times=replace(times, outcome="same"))
    assert slower_than_eager(same, nobody) is None


def test_a_place_is_not_said_where_causes_explain_most_of_it() -> None:
    where, why = asking(on_block(0, 4.0, "profiled")), asking(on_block(0, 3.0, "replayed"))
    got, after = settled((PLACE, where), (CAUSE, why))
    assert list(got) == ["cause"] and after.parts[0].claimed_ms == (3.0, 3.0)
    little = asking(on_block(0, 1.0, "replayed"))
    got, after = settled((PLACE, where), (CAUSE, little))
    assert got["place"].cost_ms == 3.0 and after.parts[0].claimed_ms == (4.0, 4.0)
