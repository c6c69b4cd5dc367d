"""What the screens look like, as SVG, on the smallest terminal and on a wide one.

After a change that is meant: pytest tests/test_tui_looks.py --snapshot-update, then look at the difference.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from replays import kernel_replay, replay_of, result_of
from tui_support import GraphsApp, before

from inspector.model.edits import KernelEdit
from inspector.readers.run import Run
from inspector.replay.edits import EditFolder
from inspector.replay.store import save_result

SIZES = [pytest.param((80, 24), id="80x24"), pytest.param((160, 50), id="160x50")]


@pytest.fixture(autouse=True)
def relative_names(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No temporary path and no local time on screen."""
    monkeypatch.chdir(corpus / "cpu-torch2.13")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.parametrize("size", SIZES)
def test_runs(snap_compare: Any, size: tuple[int, int]) -> None:
    assert snap_compare(GraphsApp(), terminal_size=size, run_before=before())


@pytest.mark.parametrize("size", SIZES)
def test_start_page(
    snap_compare: Any, size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert snap_compare(GraphsApp(), terminal_size=size, run_before=before())


@pytest.mark.parametrize("size", SIZES)
def test_run_with_breaks(snap_compare: Any, size: tuple[int, int]) -> None:
    assert snap_compare(GraphsApp("breaks"), terminal_size=size, run_before=before("number_sign", "j"))


@pytest.mark.parametrize("size", SIZES)
def test_run_without_graphs(snap_compare: Any, size: tuple[int, int]) -> None:
    assert snap_compare(GraphsApp("cache_hit"), terminal_size=size, run_before=before())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("pane", ["1", "2", "3", "4", "5", "6"])
def test_graph_panes(snap_compare: Any, size: tuple[int, int], pane: str) -> None:
    keys = before("enter", "j", "j", "j", pane)
    assert snap_compare(GraphsApp("softmax"), terminal_size=size, run_before=keys)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("view", ["lanes", "missed", "boxes", "sides", "rounds"])
def test_fusion_pane(snap_compare: Any, size: tuple[int, int], view: str) -> None:
    """A training step's backward graph: groups, library calls, and misses of several kinds."""
    ways = {
        "lanes": (),
        "missed": ("m",),
        "boxes": ("b",),
        "sides": ("a",),
        "rounds": ("less_than_sign",) * 3,
    }
    keys = before("j", "enter", "f", *["j"] * 11, *ways[view])
    assert snap_compare(GraphsApp("mlp"), terminal_size=size, run_before=keys)


SAMPLES = Path(__file__).parents[1] / "sample_runs"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("sample", ["breaks", pytest.param("stories/small_softmax", id="small_softmax")])
def test_explained(
    snap_compare: Any, size: tuple[int, int], sample: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SAMPLES)
    app = GraphsApp(f"{sample}/run.tar.xz")
    assert snap_compare(app, terminal_size=size, run_before=before("e", "right_square_bracket"))


@pytest.mark.parametrize("size", SIZES)
def test_findings_of_a_run(snap_compare: Any, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SAMPLES)
    app = GraphsApp("breaks/run.tar.xz")
    assert snap_compare(
        app, terminal_size=size, run_before=before("number_sign", "e", "escape", "G", "k", "k", "k")
    )


@pytest.mark.parametrize("size", SIZES)
def test_findings_of_a_graph(
    snap_compare: Any, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SAMPLES)
    app = GraphsApp("stories/small_softmax/run.tar.xz")
    assert snap_compare(app, terminal_size=size, run_before=before("e", "escape", "enter", "7"))


def test_ir_as_text(snap_compare: Any) -> None:
    keys = before("enter", "j", "j", "j", "2", "o")
    assert snap_compare(GraphsApp("softmax"), terminal_size=(160, 50), run_before=keys)


@pytest.fixture
def replayed(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A copy of a run with two replays of its first graph and an edit; its name."""
    run = tmp_path / "mlp"
    shutil.copytree(corpus / "cpu-torch2.13" / "mlp", run)
    monkeypatch.chdir(tmp_path)
    graph = Run.open("mlp").graphs[0]
    code = graph.code()
    assert code is not None
    for started, factor in ((1_795_000_000.0, 1.25), (1_795_090_000.0, 1.0)):
        save_result(result_of(started, replay_of(graph.ident, code, factor)), run)
    kernel = code.kernels[0]
    folder = EditFolder(graph.run, graph.ident, kernel)
    source = kernel.source.replace("#pragma omp for", "#pragma omp for schedule(static)", 1)
    original, edited = kernel_replay(code.calls[0]), kernel_replay(code.calls[0], 0.5)
    folder.save(KernelEdit(graph.ident, kernel.name, 0, 1, source, 1_795_100_000.0, original, edited))
    return "mlp"


@pytest.mark.parametrize("size", SIZES)
def test_replayed_kernels(snap_compare: Any, replayed: str, size: tuple[int, int]) -> None:
    assert snap_compare(GraphsApp(replayed), terminal_size=size, run_before=before("enter", "4", "j"))


@pytest.mark.parametrize("size", SIZES)
def test_edited_kernel(snap_compare: Any, replayed: str, size: tuple[int, int]) -> None:
    keys = before("enter", "4", "s", "s", "k", "g", "tab")
    assert snap_compare(GraphsApp(replayed), terminal_size=size, run_before=keys)


@pytest.mark.parametrize("size", SIZES)
def test_replayed_run(snap_compare: Any, replayed: str, size: tuple[int, int]) -> None:
    assert snap_compare(GraphsApp(replayed), terminal_size=size, run_before=before())


def test_long_kernel_names(snap_compare: Any) -> None:
    keys = before("enter", "4", "j", "j")
    app = GraphsApp("../h200-torch2.11/resnet50")
    assert snap_compare(app, terminal_size=(160, 50), run_before=keys)


@pytest.mark.parametrize("size", SIZES)
def test_help(snap_compare: Any, size: tuple[int, int]) -> None:
    keys = before("enter", "question_mark")
    assert snap_compare(GraphsApp("softmax"), terminal_size=size, run_before=keys)


def test_search(snap_compare: Any) -> None:
    keys = before("enter", "3", "slash", "b", "u", "f", "4")
    assert snap_compare(GraphsApp("softmax"), terminal_size=(80, 24), run_before=keys)


def test_terminal_colours(snap_compare: Any) -> None:
    """A theme of the terminal's own sixteen colours leaves nothing unreadable."""
    app = GraphsApp("softmax")
    app.theme = "ansi-dark"
    keys = before("enter", "5", "j", "j")
    assert snap_compare(app, terminal_size=(160, 50), run_before=keys)
