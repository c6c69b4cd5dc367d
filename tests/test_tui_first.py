"""The first screen: its answer, what each row leads to, and no figure that differs from others elsewhere."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from explaining import explained
from tui_support import before, lines, press, settle, text

from inspector.gather import fusion_of, summary_of
from inspector.model.explain import Explanation, Ledger
from inspector.model.trial import AUTO, Outcome, TrialReport
from inspector.present.answer import Offers, answer_rows
from inspector.present.explain import explain_page
from inspector.present.explain import lines as explain_lines
from inspector.present.summary import lines as summary_lines
from inspector.present.words import PART_SLOWER, RULES, title
from inspector.readers.run import Run
from inspector.tui.app import InspectorApp
from inspector.tui.screens.diff import DiffScreen
from inspector.tui.screens.explain import ExplainScreen
from inspector.tui.screens.explaining import Findings
from inspector.tui.screens.first import FirstScreen
from inspector.tui.screens.graph import GraphScreen
from inspector.tui.screens.run import RunScreen
from inspector.tui.screens.source import SourceScreen
from inspector.tui.widgets.code_view import CodeView

SAMPLES = Path(__file__).parents[1] / "sample_runs"
ARCHIVES = sorted(SAMPLES.rglob("run*.tar.xz"))
NAMES = [str(path.relative_to(SAMPLES)) for path in ARCHIVES]
SIZES = [pytest.param((80, 24), id="80x24"), pytest.param((160, 50), id="160x50")]
STORY = "stories/small_softmax/run.tar.xz"

_TIME = r"-?\d[\d.,]* (?:ns|us|ms|s|min|h)"
_BOTH = re.compile(rf"({_TIME}) compiled · ({_TIME}) in eager$")
_RATIO = re.compile(r"^(?:[\d.,]+x (?:SLOWER|FASTER) than eager|as fast as eager)")
_PART = re.compile(rf"^  (\S.*?) +({_TIME}) +([\d.,]+ %) ")
_COMPILING = re.compile(rf"compiling took ({_TIME})(?:, won back after ([\d,]+) calls)?")
_SUMMED = re.compile(
    rf"^compiled is ([\d.,]+x \w+ than eager): ({_TIME}) against ({_TIME}) per call of .*"
    rf"compiling \(({_TIME})\)(?: is won back after ([\d,]+) calls)?"
)
_TITLES = "|".join(re.escape(plain.title) for plain in (*RULES.values(), PART_SLOWER))
_FINDING = re.compile(rf"^(\d+ (?:{_TITLES})) .*?({_TIME})(?= |$)")


_SUMMED_NAMES = ("verdict", "compiled", "eager", "compiling", "won back")


def figures(shown: list[str]) -> dict[str, set[str]]:
    """Each quantity of a text by its name, with the values that it has there."""
    seen: dict[str, set[str]] = {}

    def say(name: str, value: str | None) -> None:
        if value:
            seen.setdefault(name, set()).add(value)

    for row in shown:
        if match := _BOTH.search(row):
            say("compiled", match[1])
            say("eager", match[2])
        if match := _RATIO.match(row):
            say("verdict", match[0].lower())
        if match := _SUMMED.match(row):
            for name, value in zip(_SUMMED_NAMES, match.groups(), strict=True):
                say(name, value)
        if match := _PART.match(row):
            say(match[1], f"{match[2]} {match[3]}")
        if match := _COMPILING.search(row):
            say("compiling", match[1])
            say("won back", match[2])
        if match := _FINDING.match(row):
            say(f"finding {match[1]}", match[2])
    return seen


@pytest.mark.parametrize("archive", ARCHIVES, ids=NAMES)
def test_no_quantity_has_two_values(archive: Path) -> None:
    explanation = explained(archive)
    first = figures([row.text for row, _ in answer_rows(explanation, 157, Offers())])
    told = {
        "explain": figures([row.text for row in explain_page(explanation, 157).page.lines]),
        "brief": figures([row.text for row in explain_lines(explanation, 100)]),
        "all": figures([row.text for row in explain_lines(explanation, 157, everything=True)]),
        "summary": figures([row.text for row in summary_lines(summary_of(Run.open(archive)), 157)]),
    }
    assert {"compiled", "eager", "compiling"} <= told["summary"].keys() or archive != SAMPLES / STORY
    assert {"compiled", "eager", "verdict"} <= first.keys() or explanation.faster is None
    costs = [finding for finding in explanation.findings if finding.cost_ms]
    assert len(costs) == sum(name.startswith("finding") for name in first)
    for where, other in told.items():
        for name in first.keys() & other.keys():
            assert first[name] == other[name] and len(first[name]) == 1, (where, name)
    assert first.keys() <= told["all"].keys() | {"won back"}


_REST = re.compile(r"^  \d+ more, ")
_FIGURE = re.compile(rf"{_TIME}\b|-?\d[\d.,]*(?: %| [kKMGT]?B\b|x\b)")


@pytest.mark.parametrize("archive", ARCHIVES, ids=NAMES)
def test_every_figure_of_the_first_screen_is_one_of_the_full_story(archive: Path) -> None:
    """What is said in short and in full comes of the same numbers: times, shares, ratios, sizes, counts."""
    explanation = explained(archive)
    short = {
        "first": [row.text for row, _ in answer_rows(explanation, 157, Offers(), roomy=True)],
        "brief": [row.text for row in explain_lines(explanation, 157)],
    }
    full = {
        "explain": [row.text for row in explain_page(explanation, 157).page.lines],
        "all": [row.text for row in explain_lines(explanation, 157, everything=True)],
    }
    figures_of = {
        # How much is left out is said where something is.
        name: set(_FIGURE.findall("\n".join(row for row in rows if not _REST.match(row))))
        for name, rows in (short | full).items()
    }
    assert len(figures_of["first"]) > 3
    for name in short:
        for whole in full:
            assert figures_of[name] <= figures_of[whole], (name, whole)


@pytest.mark.parametrize("archive", ARCHIVES, ids=NAMES)
@pytest.mark.parametrize("width", [60, 77, 157])
def test_no_line_is_wider_than_the_screen(archive: Path, width: int) -> None:
    rows = [row for row, _ in answer_rows(explained(archive), width, Offers("[t] try", "[A] capture", ": e"))]
    assert max(row.width for row in rows) <= width


def test_where_nothing_was_timed_it_says_what_is_needed() -> None:
    nothing = Explanation("nothing", Ledger(None, None, (), None))
    shown = [row.text for row, _ in answer_rows(nothing, 77, Offers(measures="capture --baseline"))]
    assert shown[0].startswith("nothing was timed") and "capture --baseline" in shown[1]


def test_what_was_tried_stands_below_its_finding_on_both_screens() -> None:
    explanation = explained(SAMPLES / "stories/bicubic_of_mish/run.tar.xz")
    base = Outcome("as it is", None, 2.0, None, None, None, (), "")
    rules = [finding.rule for finding in explanation.findings if finding.trial is not None]
    trials = {
        name: TrialReport(base, (replace(base, label=f"tried for {name}"),), name)
        for name in (AUTO, rules[0])
    }
    pages = (
        [row.text for row, _ in answer_rows(explanation, 100, Offers(), None, trials)],
        [row.text for row in explain_page(explanation, 100, trials).page.lines],
    )
    for shown in pages:
        places = {
            name: next(n for n, row in enumerate(shown) if f"tried for {name}" in row) for name in trials
        }
        heads = [
            next(n for n, row in enumerate(shown) if row.startswith(f"{number} {title(finding)}"))
            for number, finding in enumerate(explanation.findings, 1)
        ]
        without = next(n for n, finding in enumerate(explanation.findings) if finding.trial is None)
        assert heads[0] < places[rules[0]] < heads[1]
        assert heads[without] < places[AUTO] < [*heads, len(shown)][without + 1]


def test_times_of_slowed_calls_are_called_that_and_an_operator_within_another_is_no_kernel() -> None:
    explanation = explained(SAMPLES / "stories/diffusion_noise/run.tar.xz")
    assert [place.kernels for place in explanation.places] == [1, 1]
    shown = [row.text for row, _ in answer_rows(explanation, 100, Offers())]
    sides = explanation.sides
    assert sides is not None and sides.ledger is not None
    slowed = replace(sides.ledger, source="profile")
    unlike = replace(explanation, sides=replace(sides, ledger=slowed))
    told = [row.text for row, _ in answer_rows(unlike, 100, Offers())]
    assert sides.ledger.source == "calls" and any(row.startswith("── Where ───") for row in shown)
    assert any(row.startswith("── Where, in slower profiled calls ─") for row in told)
    # Times beside which the call's own are nothing do not say where it goes.
    far = tuple(replace(place, ms=place.ms * 10) for place in unlike.places)
    told = [row.text for row, _ in answer_rows(replace(unlike, places=far), 100, Offers())]
    assert not any(row.startswith("── Where,") for row in told)


async def opened(pilot: Any) -> FirstScreen:
    await settle(pilot)
    screen = pilot.app.screen
    assert isinstance(screen, FirstScreen)
    return screen


@pytest.mark.parametrize("archive", ARCHIVES, ids=NAMES)
async def test_the_line_in_one_key_the_kernel_in_two_a_missed_fusion_in_three(archive: Path) -> None:
    app = InspectorApp(str(archive))
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        shown = lines(app)
        assert screen.session.explanation is not None
        assert any(row[1:].startswith("Why ") for row in shown)
        assert any("Where one call goes" in row for row in shown)
        blamed = screen.evidence
        await press(pilot, "enter")
        assert isinstance(app.screen, SourceScreen) and blamed is not None, text(app)
        assert app.screen.query_one(CodeView).cursor + 1 == blamed.line
        await press(pilot, "escape")
        if not any(graph.files for graph in screen.session.run.graphs):
            return
        await press(pilot, "4")
        assert isinstance(app.screen, GraphScreen) and app.screen.pane == "kernels"
        await press(pilot, "escape", "f")
        await press(pilot, "m")
        assert isinstance(app.screen, GraphScreen) and app.screen.half == "missed"
        missed = fusion_of(app.screen.graph).missed
        shown = lines(app)
        assert any("Missed fusions · " in row and (not missed) == ("· none" in row) for row in shown)
        # The reason is on screen, in short and in full.
        assert not missed or (
            any("why apart" in row for row in shown) and any("✗ " in row for row in shown)
        ), text(app)


async def test_an_archive_is_offered_no_try_on_either_screen() -> None:
    app = InspectorApp(str(SAMPLES / STORY))
    async with app.run_test(size=(100, 40)) as pilot:
        screen = await opened(pilot)
        assert screen.session.foreign and not screen.check_action("try_advice", ())
        await press(pilot, "e")
        await settle(pilot)
        shown = app.screen
        assert isinstance(shown, ExplainScreen) and shown.finding is not None
        assert not shown.check_action("try_advice", ())
        screen.session.foreign = None
        assert shown.check_action("try_advice", ())


async def test_a_sign_turns_until_the_answer_is_there_and_nothing_jumps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work_out = Findings.work_out
    monkeypatch.setattr(Findings, "work_out", lambda self: setattr(self._session, "explaining", True))
    app = InspectorApp(str(SAMPLES / STORY))
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        screen._turn()
        await settle(pilot)
        early = lines(app)
        assert "working out" in early[2] and [row.strip() for row in early[3:-1]] == [""] * 20
        screen.session.explaining = False
        work_out(screen.findings)
        await settle(pilot)
        late = lines(app)
        assert "SLOWER than eager" in late[2] and screen._view.cursor > 0


async def test_two_marked_runs_are_compared_the_earlier_first() -> None:
    app = InspectorApp(str(SAMPLES / "stories/transformer_gpu"))
    async with app.run_test(size=(100, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "M")
        assert "marked" in text(app)
        await press(pilot, "M")
        assert "not marked" in text(app)
        await press(pilot, "M", "j", "M")
        assert isinstance(app.screen, DiffScreen)
        shown = " ".join(text(app).split())
        assert "B is 4.44x faster than A (1.29 ms → 290 us a call)" in shown


async def test_each_row_leads_somewhere() -> None:
    app = InspectorApp(str(SAMPLES / STORY))
    async with app.run_test(size=(160, 50)) as pilot:
        screen = await opened(pilot)
        await press(pilot, "e")
        assert isinstance(app.screen, ExplainScreen) and app.screen.finding == screen.finding
        await press(pilot, "escape", "tab")
        assert isinstance(app.screen, RunScreen)
        assert "1 cpp + 1 extern" in text(app), "kernels are counted without asking"
        await press(pilot, "escape")
        assert app.screen is screen
        assert "try" not in lines(app)[-1].split(), "an archive's program is elsewhere"
        await press(pilot, "A")
        assert "captured elsewhere" in text(app)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "sample",
    [
        "breaks",
        pytest.param("stories/small_softmax", id="small_softmax"),
        pytest.param("stories/transformer_gpu", id="transformer_gpu"),
    ],
)
def test_looks(
    snap_compare: Any, size: tuple[int, int], sample: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SAMPLES)
    assert snap_compare(InspectorApp(f"{sample}/run.tar.xz"), terminal_size=size, run_before=before())
