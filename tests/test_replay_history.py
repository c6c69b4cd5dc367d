"""Several replays taken together, and where edits of a kernel are kept."""

from __future__ import annotations

import json
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from replays import CPU, kernel_replay, replay_of, result_of

from inspector.analysis.replay_history import kernel_history, latest, merged, peaks_used
from inspector.model.edits import KernelEdit
from inspector.model.problem import InspectorError
from inspector.model.replay import GraphReplay, KernelReplay, Timing
from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run
from inspector.replay.edits import EditFolder, edit_of, keep_edits, kernel_with_source


def kernel(call: int, ms: float, name: str = "k") -> KernelReplay:
    return KernelReplay(name, call, "match", time=Timing(ms, 0.0, 3))


WHOLE = GraphReplay(
    "g",
    eager=Timing(3.0, 0.0, 3),
    compiled=Timing(2.0, 0.0, 3),
    kernels=(kernel(0, 1.0), kernel(1, 0.5)),
    notes=("a note",),
    device="cpu",
)


def test_a_replay_of_one_launch_leaves_the_rest_of_the_graph_as_it_was() -> None:
    one = GraphReplay("g", kernels=(kernel(1, 0.25),), notes=("another",))
    both = merged(WHOLE, one)
    assert [item.time.median_ms for item in both.kernels if item.time] == [1.0, 0.25]
    assert both.compiled == WHOLE.compiled and both.eager == WHOLE.eager
    assert both.notes == ("a note", "another") and both.device == "cpu"
    assert both.host_gap_ms == pytest.approx(0.75)


def test_a_replay_of_the_whole_graph_keeps_launches_that_it_did_not_run() -> None:
    newer = replace(WHOLE, compiled=Timing(1.5, 0.0, 3), kernels=(kernel(0, 0.8),), failure="stopped")
    both = merged(WHOLE, newer)
    assert both.compiled == Timing(1.5, 0.0, 3) and both.failure == "stopped"
    assert [item.time.median_ms for item in both.kernels if item.time] == [0.8, 0.5]
    assert merged(None, WHOLE) is WHOLE


def test_the_history_of_a_launch_is_newest_first_and_names_the_machine() -> None:
    results = [
        result_of(1.0, WHOLE),
        result_of(3.0, GraphReplay("other", kernels=(kernel(0, 9.0),))),
        result_of(2.0, replace(WHOLE, device="cuda")),
    ]
    found = kernel_history(results, "g", 0)
    assert [(item.started, item.device) for item in found] == [(2.0, "NVIDIA H200"), (1.0, "Test CPU")]
    assert set(latest(results)) == {"g", "other"}
    assert peaks_used(results, "cpu") == CPU
    assert peaks_used([], "cpu") is None


# -- edits


@pytest.fixture
def graph(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CompiledGraph:
    """A graph of a capture: a folder with a manifest, as `inspector capture` makes it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(corpus / "cpu-torch2.13" / "softmax", tmp_path / "run")
    return Run.open(str(tmp_path / "run")).graphs[0]


def folder_of(graph: CompiledGraph) -> EditFolder:
    code = graph.code()
    assert code is not None
    return EditFolder(graph.run, graph.ident, kernel_with_source(code, "cpp_fused__softmax_0"))


def test_an_edit_begins_with_the_newest_or_with_the_original(graph: CompiledGraph) -> None:
    folder = folder_of(graph)
    first = folder.begin()
    original = first.read_text(encoding="utf-8")
    assert "#pragma omp parallel" in original and first.name == "1.cpp"
    first.write_text("changed", encoding="utf-8")
    assert folder.begin().read_text(encoding="utf-8") == "changed"
    third = folder.begin(anew=True)
    assert third.name == "3.cpp" and third.read_text(encoding="utf-8") == original


def test_edits_come_back_newest_first_and_what_is_unreadable_is_left_out(graph: CompiledGraph) -> None:
    folder = folder_of(graph)
    code = graph.code()
    assert code is not None
    original = kernel_replay(code.calls[1])
    assert original.time is not None
    faster = replace(original, time=replace(original.time, median_ms=original.time.median_ms / 4))
    edits = [
        KernelEdit(graph.ident, "cpp_fused__softmax_0", 1, number, f"source {number}", 5.0, original, edited)
        for number, edited in ((1, faster), (2, None))
    ]
    for edit in edits:
        folder.save(edit)
    assert folder.load() == (edits[1], edits[0])
    assert edits[0].ratio == pytest.approx(0.25) and edits[1].ratio is None
    (folder.path / "2.json").write_text("{", encoding="utf-8")
    (folder.path / "notes.txt").write_text("mine", encoding="utf-8")
    assert folder.load() == (edits[0],)
    assert json.loads((folder.path / "1.json").read_text(encoding="utf-8"))["schema"] == "inspector.edit/1"


def test_edits_of_what_is_no_capture_are_kept_apart(
    corpus: Path, graph: CompiledGraph, tmp_path: Path
) -> None:
    bare = Run.open(str(graph.run.root / "torch_compile_debug"))
    assert bare.kind != "capture"
    folder = folder_of(bare.graphs[0])
    assert tmp_path / "cache" in folder.path.parents
    folder.begin()
    assert not (graph.run.root / "torch_compile_debug" / "replay").exists()


def test_edits_of_an_archive_outlive_what_was_unpacked(graph: CompiledGraph, tmp_path: Path) -> None:
    archive = tmp_path / "packed.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(graph.run.root, "softmax")
    opened = Run.open(str(archive))
    assert opened.kind == "capture"
    path = folder_of(opened.graphs[0]).begin()
    assert tmp_path / "cache" in path.parents and "/edits/softmax-" in str(path)
    again = folder_of(Run.open(str(archive)).graphs[0])
    assert list(again.sources().values()) == [path]


def test_only_kernels_with_a_source_of_their_own_can_be_edited(graph: CompiledGraph) -> None:
    code = graph.code()
    assert code is not None
    with pytest.raises(InspectorError, match="a library's kernel has no source"):
        kernel_with_source(code, "extern_kernels.mm")
    with pytest.raises(InspectorError, match="no kernel of this graph"):
        kernel_with_source(code, "nothing")


def test_backslashes_are_what_the_compiler_gets(graph: CompiledGraph) -> None:
    text = next(graph.run.root.rglob("output_code.py"))
    source = text.read_text(encoding="utf-8").replace("r'''", "'''")
    text.write_text(
        source.replace("#pragma omp parallel", "// a\\\\nb\n#pragma omp parallel", 1), encoding="utf-8"
    )
    code = Run.open(str(graph.run.root)).graphs[0].code()
    assert code is not None
    assert "// a\\nb\n" in kernel_with_source(code, "cpp_fused__softmax_0").source


def test_an_edit_that_was_not_reached_says_why(graph: CompiledGraph) -> None:
    missing = edit_of(GraphReplay("g", failure="a kernel does not compile"), 3, "text", 2, 1.0)
    assert missing.failure == "not replayed: a kernel does not compile" and missing.edited is None
    done = edit_of(replace(WHOLE, edits=(kernel(1, 0.25),)), 1, "text", 2, 1.0)
    assert done.failure is None and done.ratio == pytest.approx(0.5)


def test_what_the_command_line_edits_is_kept_with_the_others(graph: CompiledGraph) -> None:
    code = graph.code()
    assert code is not None
    replay = replay_of(graph.ident, code)
    replay = replace(replay, edits=(replay.kernels[1],))
    keep_edits(Run.open(graph.run.root), [graph], result_of(1.0, replay), "new text")
    (edit,) = folder_of(graph).load()
    assert edit.source == "new text" and edit.number == 1 and edit.ratio == pytest.approx(1.0)
