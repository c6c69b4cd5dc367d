"""Findings in the browser: their text, the way to their evidence, and settings tried from there."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from explaining import explained as explained_run
from tui_support import GraphsApp, lines, press, settle, text, until
from waiting import wait_until

from inspector.capture.environment import CaptureOptions
from inspector.capture.launch import capture
from inspector.contract.trial import from_json, to_json
from inspector.model.explain import Evidence, Explanation, Finding, Ledger, LedgerPart, Trial
from inspector.model.trial import Outcome, TrialReport
from inspector.present.answer import ledger_lines
from inspector.present.documents import Document
from inspector.present.explain import (
    Target,
    explain_page,
    graph_page,
    short_verdict,
)
from inspector.present.run import events_of
from inspector.readers.run import Run
from inspector.tui import trying
from inspector.tui.app import InspectorApp
from inspector.tui.destinations import find_destination
from inspector.tui.screens import explain as explain_module
from inspector.tui.screens.confirm import ConfirmScreen
from inspector.tui.screens.explain import ExplainScreen
from inspector.tui.screens.graph import GraphScreen
from inspector.tui.screens.source import SourceScreen
from inspector.tui.trying import TrialJob

NARROW = (80, 24)
WIDE = (160, 50)
SAMPLES = Path(__file__).parents[1] / "sample_runs"
BREAKS = str(SAMPLES / "breaks" / "run.tar.xz")
STORY = str(SAMPLES / "stories" / "small_softmax" / "run.tar.xz")


@pytest.fixture(scope="session")
def explained(corpus_runs: list[Path]) -> list[tuple[Run, Explanation]]:
    return [(Run.open(str(path)), explained_run(path)) for path in corpus_runs]


def finding(rule: Any = "host_bound", **other: Any) -> Finding:
    plain = Finding(rule, "high", "a title", None, 1.0, (), "some advice")
    return replace(plain, **other)


# -- the text


@pytest.mark.parametrize("width", [60, 77, 157])
def test_every_line_fits_and_every_evidence_has_one(
    explained: list[tuple[Run, Explanation]], width: int
) -> None:
    for _, explanation in explained:
        written = explain_page(explanation, width)
        assert len(written.targets) == written.page.count
        # A change of code is shown as it is: cut, it would be another one.
        changes = {f"    {change}" for item in explanation.findings for change in item.change}
        assert all(len(row.text) <= width or row.text in changes for row in written.page.lines)
        for number, item in enumerate(explanation.findings):
            assert written.row_of(Target(number)) is not None
            for position, evidence in enumerate(item.evidence):
                row = written.row_of(Target(number, position))
                assert row is not None
                if evidence.line is not None and width > 100:
                    assert f":{evidence.line}" in written.page.text(row)


def test_the_cursor_starts_on_the_worst_finding() -> None:
    written = explain_page(
        Explanation("why", Ledger(None, None, (), None), (finding(), finding("atomics"))), 77
    )
    assert written.targets[written.page.start] == Target(0)
    assert written.page.text(written.page.start).startswith(
        "1 Much time goes to Python and launching  may save 1.00 ms a call, estimated"
    )


def test_bars_are_shares_of_the_whole_call() -> None:
    parts = (LedgerPart("library kernels", 6.0, "replay"), LedgerPart("host gap", 3.0, "calls"))
    rows = [row.text for row in ledger_lines(Ledger(8.0, 10.0, parts, 1.0), 77)]
    bars = [row.count("█") for row in rows]
    assert "unexplained" in rows[2] and "10 %" in rows[2]
    # 60, 30 and 10 %, to less than a cell.
    assert bars[0] >= 20 and abs(bars[0] - 2 * bars[1]) <= 2 and abs(bars[0] - 6 * bars[2]) <= 6
    assert rows[0].endswith("replayed") and rows[1].rstrip().endswith("measured")


def test_a_short_verdict_compares_or_names_the_reason() -> None:
    empty = Ledger(None, None, (), None)
    compared = Explanation("why", empty, (finding(),), faster=0.5, outcome="slower")
    assert short_verdict(compared) == ("2.00x SLOWER than eager", "bad")
    assert short_verdict(replace(compared, faster=1.5, outcome="faster")).tone == "good"
    assert short_verdict(replace(compared, outcome="same")).text == "as fast as eager"
    assert "too few calls" in short_verdict(replace(compared, outcome="unknown")).text
    alone = Explanation("A title; some advice", empty, (finding(severity="medium"),))
    assert short_verdict(alone).text == "Much time goes to Python and launching"
    assert short_verdict(alone, "1.20x faster than op by op").text == "1.20x faster than op by op"
    assert short_verdict(Explanation("nothing", empty), "2x").text == "2x"


def test_a_graph_has_its_findings_and_those_that_point_into_its_folder() -> None:
    mine, other = (
        Evidence("debug/one/output_code.py", 3, ""),
        Evidence("debug/one_more/output_code.py", 3, ""),
    )
    findings = (
        finding(graph="one"),
        finding("atomics", evidence=(mine,)),
        finding("host_sync", evidence=(other,)),
        finding("recompiles", graph="one_more", evidence=(mine,)),
    )
    written = graph_page(Explanation("why", Ledger(None, None, (), None), findings), "one", "debug/one", 77)
    assert written.page.title == "Explain · 2 of 4 findings"
    assert {target.finding for target in written.targets if isinstance(target, Target)} == {0, 1}


def test_a_trial_stands_below_its_finding_with_the_prediction() -> None:
    base = Outcome("as it is", None, 10.0, 5.0, 3, 1e6, (("match", 2),), "run")
    tried = replace(base, label="dynamic=True", ms=8.0, predicted_ms=2.1, trial=Trial(dynamic=True))
    report = from_json(to_json(TrialReport(base, (tried,), "recompiles")))
    assert report == TrialReport(base, (replace(tried, trial=None),), "recompiles")
    explanation = Explanation("", Ledger(None, None, (), None), (finding(), finding("recompiles")))
    written = explain_page(explanation, 157, {"recompiles": report})
    row = next(
        n for n, item in enumerate(written.page.lines) if "predicted to save 2.10 ms a call" in item.text
    )
    assert written.targets[row] == Target(1)
    assert "saved 2.00 ms: as predicted" in written.page.text(row)


# -- where evidence is


def test_evidence_in_artifacts_and_logs_is_found_at_its_line(
    explained: list[tuple[Run, Explanation]],
) -> None:
    seen = set()
    for run, explanation in explained:
        events = events_of(run.facts())
        # What a rule quotes of torch's log stands there, whichever of them has something to say.
        logs = [path for path in run.root.rglob("torch_logs.txt") if path.read_text().count("\n") > 2]
        own = [Evidence(str(path.relative_to(run.root)), 2, "a line") for path in logs]
        for item in (*own, *(item for found in explanation.findings for item in found.evidence)):
            if item.path.startswith("/"):
                continue
            found = find_destination(run, item, events)
            assert found.document is not None and item.line is not None, item
            shown = found.document.lines[found.document.start]
            seen.add(item.path.rpartition("/")[2])
            if found.graph is not None:
                assert found.place == ("code", "code")
                code = found.graph.code()
                assert code is not None and code.text.split("\n")[item.line - 1].startswith(shown[:80])
            else:
                text = (run.root / item.path).read_text(encoding="utf-8").split("\n")
                assert text[item.line - 1].startswith(shown[:80])
    assert seen >= {"output_code.py", "torch_logs.txt"}


def test_a_line_of_a_long_log_is_read_with_what_is_around_it(corpus: Path) -> None:
    run = Run.open(str(corpus / "h200-torch2.11" / "resnet50"))
    (path,) = run.root.glob("torch_logs.txt")
    count = len(path.read_text(encoding="utf-8").split("\n"))
    assert 5000 < count < 7000
    found = find_destination(run, Evidence(run.label(path), 5000, "")).document
    assert found is not None and found.first_number == 3000 and found.count == count - 3000
    assert found.start + found.first_number == 5000


def test_the_program_beside_the_run_is_found_by_its_line() -> None:
    run = Run.open(BREAKS)
    events = events_of(run.facts())
    for item in (item for found in explained_run(Path(BREAKS)).findings for item in found.evidence):
        if item.path.endswith("breaks.py"):
            found = find_destination(run, item, events)
            assert found.document is not None and not found.remark
            assert found.document.start + 1 == item.line
    gone = find_destination(run, Evidence("/nowhere/other.py", 3, "x = 1"), events)
    assert gone.document is None and gone.remark == "/nowhere/other.py is not on this machine"


def test_a_file_that_changed_since_says_so(tmp_path: Path, corpus: Path) -> None:
    run = Run.open(str(corpus / "cpu-torch2.13" / "breaks"))
    event = next(event for event in events_of(run.facts()) if event.location)
    assert event.location is not None
    changed = tmp_path / "workload.py"
    changed.write_text("# nothing\n" * 40)
    moved = replace(event, location=replace(event.location, path=str(changed), code="if x.sum() > 0:"))
    found = find_destination(run, Evidence(str(changed), event.location.line, "why"), [moved])
    assert found.document is not None and "changed since" in found.remark


def test_folders_and_whole_files(corpus: Path) -> None:
    run = Run.open(str(corpus / "cpu-torch2.13" / "softmax"))
    folder = run.graphs[0].folder
    assert folder is not None
    assert find_destination(run, Evidence(run.label(folder), None, "")).graph is run.graphs[0]
    assert "whole folder" in find_destination(run, Evidence("torch_compile_debug", None, "")).remark
    script = find_destination(run, Evidence(f"{run.label(folder)}/fx_graph_runnable.py", 2, ""))
    assert script.place is None and script.document is not None and script.document.start == 1


# -- the screens


def explain_screen(app: InspectorApp) -> ExplainScreen:
    assert isinstance(app.screen, ExplainScreen)
    return app.screen


async def open_explain(pilot: Any) -> ExplainScreen:
    await settle(pilot)
    await press(pilot, "e")
    return explain_screen(pilot.app)


async def test_enter_goes_to_the_line_of_the_code_and_of_the_program() -> None:
    app = GraphsApp(STORY)
    async with app.run_test(size=NARROW) as pilot:
        screen = await open_explain(pilot)
        item = screen.evidence
        assert item is not None and item.path.endswith("output_code.py")
        await press(pilot, "enter")
        await settle(pilot)
        assert isinstance(app.screen, GraphScreen) and app.screen.pane == "code"
        view = app.screen.views["code"]
        assert view.cursor + 1 == item.line and app.screen.view is view
        assert isinstance(view.content, Document) and "extern_kernels.mm(" in view.content.lines[view.cursor]
        # What leads there stands above it, and the selection is this line's.
        assert "▸154" in text(app) and "▸154" not in lines(app)[2]
        assert "softmax" in app.screen.bar.text or "mm" in app.screen.bar.text
        await press(pilot, "escape", "right_square_bracket", "enter")
        await settle(pilot)
        assert isinstance(app.screen, SourceScreen)
        assert "▸10" in text(app).replace(" ", "")


async def test_wide_shows_the_evidence_beside_the_findings() -> None:
    app = GraphsApp(BREAKS)
    async with app.run_test(size=WIDE) as pilot:
        screen = await open_explain(pilot)
        await settle(pilot)
        preview = screen._preview
        assert preview.display and preview.cursor == 13 and "x.sum() > 0" in preview.content.lines[13]
        await press(pilot, *["right_square_bracket"] * 2)
        await settle(pilot)
        assert preview.cursor == 11 and "breaks.py" in preview.content.title
        await press(pilot, "tab")
        assert screen.focused is preview
        await pilot.resize_terminal(*NARROW)
        await settle(pilot)
        assert not preview.display and screen.focused is screen._view


async def test_a_graph_has_a_pane_of_its_findings() -> None:
    app = InspectorApp(STORY)
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await press(pilot, "7")
        assert "1 Much time goes to Python" in text(app) and "Explain · 1 of 2 findings" in text(app)
        await press(pilot, "enter")
        await settle(pilot)
        assert isinstance(app.screen, GraphScreen) and app.screen.pane == "code"
        assert app.screen.views["code"].cursor == 153
        assert "▸154" in text(app) and "▸154" not in lines(app)[2]


async def test_search_and_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    app = GraphsApp(BREAKS)
    copied: list[str] = []
    monkeypatch.setattr(app, "copy_to_clipboard", copied.append)
    async with app.run_test(size=NARROW) as pilot:
        screen = await open_explain(pilot)
        await press(pilot, "slash", *"dynamic=True", "enter", "y")
        assert screen.finding is not None and screen.finding.rule == "recompiles"
        assert "dynamic=True" in copied[0]
        await press(pilot, "escape", "question_mark")
        assert "Run the command again with" in text(app) and "Go to the line of evidence" in text(app)


async def test_another_machines_run_is_neither_measured_nor_tried() -> None:
    app = GraphsApp(STORY)
    async with app.run_test(size=WIDE) as pilot:
        await open_explain(pilot)
        await press(pilot, "R")
        assert "times of this machine would not be" in text(app)
        await press(pilot, "t")
        assert "it came as an archive): capture it here, then try" in text(app)


async def test_what_a_replay_measured_is_explained_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    from replays import replay_of, result_of

    from inspector.replay import trust
    from inspector.replay.store import save_result
    from inspector.tui.screens import replays as replays_module

    def replay(run: Run, graphs: Any, *other: Any, **options: Any) -> Any:
        code = graphs[0].code()
        result = result_of(1_795_000_000.0, replay_of(graphs[0].ident, code))
        save_result(result, run.root)
        return result

    monkeypatch.setattr(replays_module, "replay", replay)
    monkeypatch.setattr(trust, "foreign", lambda *_: None)
    monkeypatch.setattr(explain_module, "foreign", lambda *_: None)
    app = GraphsApp(str(SAMPLES / "softmax" / "run.tar.xz"))
    async with app.run_test(size=WIDE) as pilot:
        screen = await open_explain(pilot)
        before = screen.session.explanation
        assert before is not None and {part.source for part in before.ledger.parts} == {"estimate"}
        await press(pilot, "R", "y")
        await settle(pilot)
        after = screen.session.explanation
        assert after is not None and "replay" in {part.source for part in after.ledger.parts}
        assert "replay" in text(app)


# -- trying


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Run, Path]]:
    """A run made here, of a program that waits a minute once `slow` is there. Its command is short, however
    long the path of this folder is."""
    monkeypatch.chdir(tmp_path)
    program, slow = tmp_path / "program.py", tmp_path / "slow"
    program.write_text(f"import os, time\nif os.path.exists({str(slow)!r}): time.sleep(60)\n")
    outcome = capture(CaptureOptions(("program.py",), out=tmp_path / "run", quiet=True))
    assert outcome.exit_code == 0
    yield Run.open(str(tmp_path / "run")), slow


def test_a_trial_that_fails_says_why(waiting: tuple[Run, Path]) -> None:
    job = TrialJob(waiting[0], "host_bound", "cpp_wrapper=True")
    job.start()
    wait_until(lambda: not job.live)
    assert job.report is None and "no such finding here" in job.error


async def test_a_trial_asks_tells_and_can_be_stopped(waiting: tuple[Run, Path]) -> None:
    run, slow = waiting
    slow.touch()
    app = GraphsApp(str(run.root))
    async with app.run_test(size=WIDE) as pilot:
        screen = await open_explain(pilot)
        # The program compiled nothing; the command line's `modes` needs no finding.
        made = finding(rule="modes", trial=Trial(mode="default"))
        screen.session.explanation = Explanation("why", Ledger(None, None, (), None), (made,))
        screen.show_session()
        await press(pilot, "t")
        assert isinstance(app.screen, ConfirmScreen) and "program.py" in text(app)
        await press(pilot, "n")
        assert "not tried" in text(app) and screen.session.trial is None
        await press(pilot, "t", "y")
        job = screen.session.trial
        assert job is not None and app.jobs == [job]
        trials = run.root / "trials"
        await until(pilot, lambda: list(trials.glob("*/*/inspector.json")))
        await until(pilot, lambda: 'trying mode="default": the command as it is' in text(app))
        await press(pilot, "x")
        await until(pilot, lambda: screen.session.trial is None)
        assert "the trial was stopped" in text(app) and not job.live


async def test_a_setting_tried_shows_its_effect_beside_the_prediction(
    waiting: tuple[Run, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the command line prints is shown; test_trial.py has a real trial."""
    run, _ = waiting
    base = Outcome("as it is", None, 1.5, 9.0, 2.0, 512.0, (("match", 3),), "as-it-is", calls=3)
    tried = replace(
        base, label="dynamic=True", cold_s=3.0, checks=(("match", 1),), predicted_ms=1900.0, compiling=True
    )
    printed = json.dumps(to_json(TrialReport(base, (tried,), "recompiles")))
    commands: list[tuple[str, ...]] = []

    def stand_in(_: object, module: str, *words: str) -> list[str]:
        commands.append((module, *words))
        return [sys.executable, "-c", f"print({printed!r})"]

    monkeypatch.setattr(trying, "python_child", stand_in)
    app = GraphsApp(str(run.root))
    async with app.run_test(size=WIDE) as pilot:
        screen = await open_explain(pilot)
        made = finding(rule="recompiles", trial=Trial(dynamic=True))
        screen.session.explanation = Explanation("why", Ledger(None, None, (), None), (made,))
        screen.show_session()
        await press(pilot, "t", "y")
        await until(pilot, lambda: screen.session.trial is None)
        words = ("explain", str(run.root.absolute()), "--try", "recompiles", "--json")
        assert commands == [("inspector.cli.__main__", *words)]
        rows = [" ".join(row.split()) for row in lines(app)]
        assert any(row.startswith("as it is ") and "3 match" in row for row in rows)
        assert any(row.startswith("dynamic=True ") and "1 match" in row for row in rows)
        said = "predicted to save 1.90 s a call with its share of compiling, saved 2.00 s: as predicted"
        assert said in " ".join(rows)
