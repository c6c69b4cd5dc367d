"""The run as a whole on screen: ranks, compile time, the recorder, the trace, source lines, the doctor."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sharing import unpacked
from textual.pilot import Pilot
from tui_support import GraphsApp, lines, press, settle, text, until
from waiting import wait_until

from inspector.model.doctor import Diagnosis, Facts, Finding
from inspector.model.logs import GraphBreak
from inspector.model.problem import Problem
from inspector.model.ranks import Divergence
from inspector.model.record import ProcessRecord
from inspector.model.run import RunFacts
from inspector.model.source import SourceLocation
from inspector.present.about import Story, about_rows, about_run
from inspector.present.doctor import doctor_table
from inspector.present.documents import Document
from inspector.present.rows import EventRow, GraphRow, TraceRow
from inspector.present.run import GraphEntry, run_table
from inspector.present.trace import event_lines
from inspector.readers.run import Run
from inspector.tui.app import InspectorApp
from inspector.tui.screens.doctor import DoctorScreen
from inspector.tui.screens.run import RunScreen
from inspector.tui.screens.source import SourceScreen
from inspector.tui.screens.trace import TraceScreen
from inspector.tui.sources import find_source
from inspector.tui.widgets.code_view import CodeView
from inspector.tui.widgets.table_view import TableView
from inspector.views.loading import load_story

NARROW = (80, 24)
WIDE = (160, 50)
DATA = Path(__file__).parent / "data"
SAMPLES = Path(__file__).parents[1] / "sample_runs"


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two ranks that compile different graphs."""
    return unpacked(DATA / "extra" / "ranks-torch2.13.tar.xz", tmp_path_factory.mktemp("ranks")) / "ranks"


def facts_of(run: str = "run", **more: Any) -> RunFacts:
    return RunFacts(run, "capture", "2.13.0", ("cpu",), 1, (), (), **more)


def row(app: InspectorApp, start: str) -> str:
    return next(line for line in lines(app) if line.strip(" ▸").startswith(start))


async def move_to(pilot: Pilot[Any], start: str) -> None:
    """Put the cursor of the run's table on the first row whose text starts like that."""
    table = pilot.app.screen.query_one("#graphs", TableView)
    texts = [table.content.text(index).strip() for index in range(table.content.count)]
    table.move_to(next(index for index, shown in enumerate(texts) if shown.startswith(start)))
    await settle(pilot)


def document(app: InspectorApp) -> Document:
    """What stands beside the list of a trace."""
    return app.screen.query_one("#trace-text", CodeView).content


# -- ranks


async def test_ranks_stand_before_their_graphs_and_differences_above_them(ranks: Path) -> None:
    app = GraphsApp(str(ranks))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        shown = lines(app)
        assert "2 ranks" in shown[0]
        first = next(number for number, line in enumerate(shown) if "model__0_inference_0.0" in line)
        head = next(number for number, line in enumerate(shown) if line.startswith(" Compiled graphs"))
        assert [line.split()[1] for line in shown[head + 2 : first]] == ["graph", "graph", "graph", "4"]
        assert "rank 1 compiled another graph than rank 0: node 5 is aten.sigmoid" in shown[head + 2]
        # The cursor stays on the first graph, although rows came in above it.
        assert shown[first].split()[:3] == ["▸", "0", "model__0_inference_0.0"]
        # Both ranks have a compile id 2/0; the break belongs to rank 1's.
        number = next(i for i, line in enumerate(shown) if "⤷ graph break" in line)
        assert shown[number - 1].split()[:2] == ["1", "model__3_inference_3.3"]
        assert "rank 1" in shown[number]
        await move_to(pilot, "≠ 4 more")
        assert "ranks differ in compile time: 2/0: rank 0 compiled for 1.53 s, rank 1 for 199 ms" in text(app)


def test_an_event_stands_by_the_graph_of_its_own_rank() -> None:
    entries = [GraphEntry(f"p{rank}/g", "forward", "0/0", rank=str(rank)) for rank in (0, 1)]
    event = GraphBreak(None, "why", (), "0/0", False, 1, "")
    for rank in (0, 1):
        facts = replace(facts_of(), graph_breaks=(replace(event, rank=rank),))
        keys = [row.key for row in run_table(entries, {}, {}, facts).rows]
        assert keys.index(EventRow(0)) == keys.index(GraphRow(f"p{rank}/g")) + 1
    facts = replace(facts_of(), graph_breaks=(event,))
    assert [row.key for row in run_table(entries, {}, {}, facts).rows] == [
        GraphRow("p0/g"),
        GraphRow("p1/g"),
        EventRow(0),
    ]


async def test_one_rank_alone(ranks: Path) -> None:
    app = GraphsApp(str(ranks))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "P")
        assert "3 of 8 · rank 0" in text(app) and "⤷" not in text(app) and "≠ graph" in text(app)
        await press(pilot, "P")
        assert "5 of 8 · rank 1" in text(app) and "⤷ graph break" in text(app)
        await press(pilot, "P")
        assert "Compiled graphs · 8" in text(app)
        await press(pilot, "enter")
        await settle(pilot)
        assert "ranks · rank 1 · model__0_inference_0.0" in lines(app)[0]


async def test_processes_without_ranks_are_told_apart_by_their_ids(ranks: Path, tmp_path: Path) -> None:
    shutil.copytree(ranks / "torch_compile_debug", tmp_path / "torch_compile_debug")
    app = GraphsApp(str(tmp_path / "torch_compile_debug"))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        assert any(line.split()[:3] == ["pid", "25527", "model__0_inference_0.0"] for line in lines(app))
        await press(pilot, "P")
        assert "3 of 8 · pid 25526" in text(app)
        assert "T trace" not in lines(app)[-1]


async def test_a_run_of_one_process_has_neither_column_nor_key(corpus: Path) -> None:
    app = GraphsApp(str(corpus / "cpu-torch2.13" / "softmax"))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        assert "rank" not in text(app)


# -- compile time, caches, recorder


async def test_compile_time_and_caches_have_a_row_that_leads_to_the_trace(corpus: Path) -> None:
    app = GraphsApp(str(corpus / "cpu-torch2.13" / "breaks"))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await move_to(pilot, "compile time")
        told = row(app, "compile time")
        assert " s  " in told and "%" in told and "caches" in told and "misses" in told
        assert "Dynamo tracing" in text(app) and "fx_graph_cache:" in text(app)
        await press(pilot, "enter")
        assert isinstance(app.screen, TraceScreen)


async def test_the_record_has_a_row() -> None:
    app = GraphsApp(str(SAMPLES / "softmax" / "run.tar.xz"))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        record = Run.open(SAMPLES / "softmax" / "run.tar.xz").records[0]
        await move_to(pilot, "recorder")
        assert "saw 1 graph being compiled" in row(app, "recorder")
        assert record.hooks[0] in text(app)
        await press(pilot, "enter")
        assert isinstance(app.screen, RunScreen)


def test_what_the_recorder_missed_is_a_warning() -> None:
    record = ProcessRecord(
        "record/rank1.jsonl",
        7,
        1,
        "3.11",
        "2.4.1",
        ("a", "b"),
        ("c",),
        (),
        problems=(Problem("x", 3, "cut"),),
    )
    (about,) = about_run(Story(records=(record, replace(record, problems=()))), facts_of())
    assert [cell.text for cell in about.cells[1:]] == [
        "saw 0 graphs being compiled",
        "could not watch c",
        "1 problem",
    ]
    assert any("torch 2.4.1 has no place for: c" in line.text for line in about.detail)
    (off,) = about_run(Story(recorded=False), facts_of())
    assert "switched off" in off.cells[1].text
    (lost,) = about_run(Story(recorded=True), facts_of())
    assert lost.cells[1].tone == "warn"
    assert about_run(Story(), facts_of()) == () and about_run(None, facts_of()) == ()


def test_a_run_of_very_many_graphs_is_not_compared_unasked(
    ranks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inspector.views.loading.COMPARED", 7)
    story = load_story(Run.open(ranks))
    about = about_run(story, facts_of())[0]
    assert about.first and "8 graphs of several processes: not compared" in about.cells[1].text
    assert story.differences == ()


def test_many_differences_take_few_rows() -> None:
    items = tuple(
        Divergence("graph", f"{n}/0", ((("rank 0",), "1 node"), (("rank 1",), "2 nodes")), f"text {n}")
        for n in range(90)
    )
    abouts = about_run(Story(differences=items), facts_of())
    above, below = about_rows(abouts)
    assert len(above) == 4 and below == []
    assert len(abouts[-1].detail) == 3 * 87
    assert len(about_run(Story(differences=items[:4]), facts_of())) == 4


# -- the trace


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
async def test_every_row_of_a_trace_has_its_text(corpus: Path, size: tuple[int, int]) -> None:
    path = corpus / "cpu-torch2.13" / "breaks"
    content = Run.open(path).traces[0].content
    app = GraphsApp(str(path))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await press(pilot, "T")
        await settle(pilot)
        screen = app.screen
        assert isinstance(screen, TraceScreen)
        assert f"{len(content.compilations)} compilations" in text(app)
        assert any("Dynamo tracing" in line for line in document(app).lines)
        item = content.compilations[0]
        await press(pilot, "j")
        told = "\n".join(document(app).lines)
        # All guards, where the command line cuts the list.
        assert len(item.guards) > 12 and f"guards: {len(item.guards)}" in told and "(--json" not in told
        assert all(line.text.split(": ")[0][:40] in told for line in event_lines(item))
        await press(pilot, "enter", "j")
        assert document(app).title == item.stages[0].label and document(app).count > 1
        await press(pilot, "enter")
        assert screen.query_one("#trace-text").has_focus
        await press(pilot, "tab", "k", "enter")
        rows = screen.query_one("#trace-list", TableView)
        rows.move_to(rows.content.by_key[TraceRow("0 kinds")])
        await settle(pilot)
        assert document(app).count == 1 + len(content.kinds)


async def test_kinds_without_a_view_are_counted_by_name(tmp_path: Path, corpus: Path) -> None:
    source = Run.open(corpus / "cpu-torch2.13" / "softmax").trace_paths[0]
    folder = tmp_path / "trace"
    folder.mkdir()
    head = source.read_text().split("\n")[0].partition("] {")[0]
    new = f'{head}] {{"artifact": {{"name": "from_the_future", "encoding": "json"}}}}\n'
    (folder / source.name).write_text(source.read_text() + new + new)
    app = GraphsApp(str(folder))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "T")
        await settle(pilot)
        assert "without a view here: from_the_future 2x" in text(app)


async def test_a_trace_alone_shows_its_compile_time_too(corpus: Path) -> None:
    trace = Run.open(corpus / "cpu-torch2.13" / "mlp").trace_paths[0]
    app = GraphsApp(str(trace))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        assert row(app, "compile time")


# -- source lines


async def test_a_break_leads_to_the_line_and_shows_the_others(ranks: Path) -> None:
    app = GraphsApp(str(ranks))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await move_to(pilot, "⤷ graph break")
        await press(pilot, "enter")
        assert isinstance(app.screen, SourceScreen)
        assert app.screen.query_one(CodeView).cursor == 29
        shown = row(app, "30")
        assert "torch._dynamo.graph_break()" in shown and "← graph break: " in shown
        assert "← recompile: " in row(app, "17")


async def test_a_program_that_is_elsewhere_is_said_to_be(ranks: Path, tmp_path: Path) -> None:
    shutil.copytree(ranks, tmp_path / "run", ignore=shutil.ignore_patterns("train.py"))
    app = GraphsApp(str(tmp_path / "run"))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await move_to(pilot, "⤷ graph break")
        await press(pilot, "enter")
        assert isinstance(app.screen, RunScreen)
        assert "train.py is not on this machine" in lines(app)[-2]


def test_a_file_of_that_name_counts_only_if_its_line_agrees(ranks: Path, tmp_path: Path) -> None:
    shutil.copytree(ranks, tmp_path / "run", ignore=shutil.ignore_patterns("train.py"))
    run = Run.open(tmp_path / "run")
    program = tmp_path / "run" / "train.py"
    place = SourceLocation("/gone/train.py", 2, "f", "y = x + 1")
    program.write_text("def f(x):\n    y = x * 2\n")
    assert find_source(place, run) is None
    program.write_text("def f(x):\n    y = x + 1\n")
    found = find_source(place, run)
    assert found is not None and found.certain and found.path == program
    assert find_source(SourceLocation("/gone/train.py", 1, "f"), run) is not None
    assert find_source(SourceLocation("/gone/train.py", 1, "g"), run) is None
    assert find_source(SourceLocation("/gone/train.py", 99, "f"), run) is None
    here = SourceLocation(str(program), 2, "f", "y = x - 1")
    changed = find_source(here, run)
    assert changed is not None and not changed.certain


# -- the doctor


DIAGNOSIS = Diagnosis(
    "can compile for the CPU; 1 warning",
    (
        Finding("python", "ok", "Python 3.11"),
        Finding("caches", "warn", "many " * 40, "they hide files", "use inspector capture"),
        Finding("gpu", "bad", "no driver", "nothing compiles", "install one"),
    ),
    Facts({}),
)


def test_findings_fit_the_width_whole() -> None:
    for width in (76, 120):
        table = doctor_table(DIAGNOSIS.findings, width)
        drawn = [table.text(index) for index in range(table.count)]
        assert max(map(len, drawn)) <= width
        assert " ".join(" ".join(drawn).split()).count("many") == 40
        assert sum("→" in line for line in drawn) == 2


async def test_the_doctor_is_one_key_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[int] = []

    def examine(**options: Any) -> Diagnosis:
        asked.append(1)
        options["on_progress"]("importing torch")
        return DIAGNOSIS

    monkeypatch.setattr("inspector.doctor.run.examine", examine)
    monkeypatch.chdir(tmp_path)
    app = GraphsApp()
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await press(pilot, "d")
        await settle(pilot)
        assert isinstance(app.screen, DoctorScreen)
        assert "cannot compile everything" in lines(app)[0] and "can compile for the CPU" in lines(app)[-2]
        assert "→ use inspector capture" in text(app)
        await press(pilot, "d")
        await settle(pilot)
        assert len(asked) == 2


@pytest.mark.slow
async def test_quitting_stops_the_doctor_and_what_it_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    app = GraphsApp()
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await pilot.press("d")
        await until(pilot, lambda: list(tmp_path.glob("inspector-doctor-*")))
        await pilot.press("q")
        assert "An examination of this machine is running. Stop and quit?" in text(app)
        await pilot.press("n")
        assert not app._exit and list(tmp_path.glob("inspector-doctor-*"))
        await pilot.press("q")
        await pilot.press("y")
    wait_until(lambda: not list(tmp_path.glob("inspector-doctor-*")))
