"""What the screens around a capture, a trace and the doctor look like; see test_tui_looks.py."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from sharing import unpacked
from test_tui_story import DIAGNOSIS
from textual.pilot import Pilot
from tui_support import GraphsApp, before, press, settle

from inspector.capture import history
from inspector.capture.environment import CaptureOptions
from inspector.present.run import GraphEntry
from inspector.readers.run import Run
from inspector.tui.capturing import CaptureJob, Sighting
from inspector.tui.navigation import LiveTarget
from inspector.tui.screens.live import LiveScreen
from inspector.views.loading import count_graph

SIZES = [pytest.param((80, 24), id="80x24"), pytest.param((160, 50), id="160x50")]


@pytest.fixture(autouse=True)
def relative_names(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No temporary path, no local time and no command of ours on screen."""
    monkeypatch.chdir(corpus / "cpu-torch2.13")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr("inspector.tui.screens.capture_form.os.getcwd", lambda: "/home/user/project")


@pytest.fixture
def ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    unpacked(Path(__file__).parent / "data" / "extra" / "ranks-torch2.13.tar.xz", tmp_path)
    monkeypatch.chdir(tmp_path)
    return "ranks"


@pytest.mark.parametrize("size", SIZES)
def test_form(snap_compare: Any, size: tuple[int, int]) -> None:
    history.remember("python train.py --epochs 1", "/home/user/project")
    history.remember("torchrun --nproc-per-node 2 finetune.py", "/home/user/elsewhere")
    keys = before("c", *"python x.py", "tab", "right", "right")
    assert snap_compare(GraphsApp(), terminal_size=size, run_before=keys)


def test_form_with_an_error(snap_compare: Any) -> None:
    keys = before("c", *"python x.py | tee log", "enter", "tab")
    assert snap_compare(GraphsApp(), terminal_size=(80, 24), run_before=keys)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("half", ["graphs", "output"])
def test_live(snap_compare: Any, size: tuple[int, int], half: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the corpus' run with graph breaks were just being captured."""
    monkeypatch.setattr(CaptureJob, "live", property(lambda self: True))
    monkeypatch.setattr(CaptureJob, "seconds", property(lambda self: 12.0))
    run = Run.open("breaks")
    facts = run.facts()
    job = CaptureJob(CaptureOptions(("python", "workload.py")), "python workload.py", (80, 24))
    job.sighting = Sighting(
        tuple(GraphEntry(graph.ident, graph.phase, graph.compile_id) for graph in run.graphs),
        {graph.ident: count_graph(graph, with_code=True, keep=False) for graph in run.graphs[:-1]},
        facts.graph_breaks,
        facts.recompiles,
    )
    job.write_stdout(b"step 1  loss 0.71\nstep 2  loss 0.68\n")
    job.write_stderr(b"a warning\n")

    async def watch(pilot: Pilot[Any]) -> None:
        await settle(pilot)
        pilot.app.push_screen(LiveScreen(LiveTarget(job)))
        await settle(pilot)
        if half == "output":
            await press(pilot, "tab")

    assert snap_compare(GraphsApp(), terminal_size=size, run_before=watch)


@pytest.mark.parametrize("size", SIZES)
def test_doctor(snap_compare: Any, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspector.doctor.run.examine", lambda **options: DIAGNOSIS)
    assert snap_compare(GraphsApp(), terminal_size=size, run_before=before("d"))


@pytest.mark.parametrize("size", SIZES)
def test_ranks(snap_compare: Any, size: tuple[int, int], ranks: str) -> None:
    assert snap_compare(GraphsApp(ranks), terminal_size=size, run_before=before("k"))


@pytest.mark.parametrize("size", SIZES)
def test_trace(snap_compare: Any, size: tuple[int, int]) -> None:
    keys = before("T", "j", "enter", "j", "j", "j")
    assert snap_compare(GraphsApp("breaks"), terminal_size=size, run_before=keys)


def test_trace_as_a_whole(snap_compare: Any, ranks: str) -> None:
    assert snap_compare(GraphsApp(ranks), terminal_size=(160, 50), run_before=before("T"))


@pytest.mark.parametrize("size", SIZES)
def test_source_line(snap_compare: Any, size: tuple[int, int]) -> None:
    assert snap_compare(GraphsApp("breaks"), terminal_size=size, run_before=before("j", "enter"))
