"""What a path is, and the line that a user gets where it is no run."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from typing import Literal

import pytest

from inspector.model.problem import InspectorError
from inspector.readers.locate import locate, runs_at


@pytest.fixture
def softmax(corpus: Path) -> Path:
    return corpus / "cpu-torch2.13" / "softmax"


def test_every_kind_of_path_is_known(softmax: Path) -> None:
    debug = softmax / "torch_compile_debug"
    process = next(debug.glob("run_*"))
    graph = next(process.glob("torchinductor/model__*"))
    trace = next((softmax / "trace").glob("*.log"))
    kinds = {
        softmax: "capture",
        debug: "debug folder",
        process: "process folder",
        graph: "graph folder",
        softmax / "trace": "trace",
        trace: "trace",
    }
    for path, kind in kinds.items():
        assert locate(path).kind == kind, path


def test_kinds_survive_renaming(softmax: Path, tmp_path: Path) -> None:
    debug = softmax / "torch_compile_debug"
    shutil.copytree(debug, tmp_path / "sent by mail")
    assert locate(tmp_path / "sent by mail").kind == "debug folder"
    graph = next(debug.glob("run_*/torchinductor/model__*"))
    shutil.copytree(graph, tmp_path / "graph")
    assert locate(tmp_path / "graph").kind == "graph folder"


def test_archives_open_as_what_they_hold(softmax: Path, tmp_path: Path) -> None:
    modes: dict[str, Literal["w:gz", "w:xz"]] = {"run.tar.gz": "w:gz", "run.tar.xz": "w:xz"}
    for name, mode in modes.items():
        with tarfile.open(tmp_path / name, mode) as tar:
            tar.add(softmax, "wrapped/softmax")
        located = locate(tmp_path / name)
        assert located.kind == "capture"
        assert located.path.name == "softmax"
        assert located.shown.startswith(str(tmp_path / name))
    shutil.make_archive(str(tmp_path / "run"), "zip", softmax)
    assert locate(tmp_path / "run.zip").kind == "capture"


def test_a_path_may_go_on_inside_an_archive(corpus: Path, tmp_path: Path) -> None:
    archive = tmp_path / "runs.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(corpus / "cpu-torch2.4.1", "cpu")
    with pytest.raises(InspectorError, match="holds 2 runs; name one of them"):
        locate(archive)
    assert locate(archive / "cpu" / "softmax").kind == "capture"
    assert [Path(run.shown).name for run in runs_at(archive)] == ["mlp", "softmax"]


def test_runs_below_a_folder_are_found(corpus: Path) -> None:
    assert len(runs_at(corpus / "h200-torch2.11")) == 9


def test_what_is_no_run_gets_one_helpful_line(tmp_path: Path, softmax: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("hello")
    one = next(softmax.glob("torch_compile_debug/run_*/torchinductor/model__*/output_code.py"))
    expected = {
        tmp_path / "missing": "no such file or folder",
        tmp_path / "empty": "an empty folder; capture something",
        tmp_path / "full": "no run here or below",
        tmp_path / "full" / "notes.txt": "not a run; what can be opened is",
        one: "open the folder it lies in",
    }
    for path, words in expected.items():
        with pytest.raises(InspectorError, match=words) as error:
            locate(path)
        assert "\n" not in str(error.value)
        assert str(path) in str(error.value)
