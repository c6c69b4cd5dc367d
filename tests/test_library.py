"""`import inspector`: runs as typed objects, frames, and capturing a function's calls."""

from __future__ import annotations

import functools
import gc
import json
import linecache
import pickle
import runpy
import subprocess
import sys
import weakref
from dataclasses import fields
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hostile import hostile_run
from sharing import unpacked

import inspector
from inspector.capture.environment import CaptureOptions
from inspector.library import captured, magic, rows
from inspector.readers.run import Run as RunFiles

SAMPLES = Path(__file__).parents[1] / "sample_runs"
STORY = SAMPLES / "stories" / "training_step" / "run.tar.xz"
LISTS = ("graphs", "kernels", "fusions", "missed", "findings", "blocks", "breaks", "recompiles")


@pytest.fixture(scope="module")
def story() -> inspector.Run:
    return inspector.open(STORY)


def test_importing_the_package_imports_nothing_else() -> None:
    program = "import sys, inspector; print(*sorted(n for n in sys.modules if n.startswith('inspector')))"
    modules = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert modules.stdout.split() == ["inspector", "inspector.version"]


def test_looking_at_a_run_imports_neither_torch_nor_a_frame() -> None:
    program = (
        f"import sys, inspector; run = inspector.open({str(STORY)!r}); run.faster, run.kernels[0].lines\n"
        "print([n for n in ('torch', 'pandas', 'polars', 'textual') if n in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert said.stdout.strip() == "[]"


def test_opening_reads_no_graph(story: inspector.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspector.readers.graph.CompiledGraph._read_text", lambda *_: pytest.fail("read"))
    graphs = inspector.open(STORY).graphs
    assert [graph.name for graph in graphs] == [graph.name for graph in story.graphs] and len(graphs) == 2


def test_a_run_that_was_shown_is_freed_with_its_last_name() -> None:
    """A notebook or a server opens many; only the screens tell the collector to leave alone what is alive."""
    opened = inspector.open(STORY)
    frozen = gc.get_freeze_count()
    opened.kernels, opened._repr_html_(), opened.json()
    graph = weakref.ref(opened.graphs[0])
    del opened
    gc.collect()
    assert graph() is None and gc.get_freeze_count() <= frozen


def test_the_objects_say_what_the_commands_say(story: inspector.Run) -> None:
    summary, explained = story.json("summary"), story.json()
    assert explained["verdict"] == story.verdict and explained["faster"] == story.faster
    assert [item["rule"] for item in explained["findings"]] == [item.rule for item in story.findings]
    for graph, counted in zip(story.graphs.to_dicts(), summary["graphs"], strict=True):
        assert graph["graph"] == counted["name"] and graph["launches"] == counted["kernel_calls"]
        assert {kind: graph[kind] for kind in counted["kernels"]} == counted["kernels"]
        assert sum(kernel.graph == graph["graph"] for kernel in story.kernels) == sum(
            counted["kernels"].values()
        )
    groups = [group for graph in story.json("fusions")["graphs"] for group in graph["groups"]]
    assert [(group["name"], group["bytes_saved"]) for group in groups] == [
        (fusion.name, fusion.bytes_saved) for fusion in story.fusions
    ]
    launches = sum(graph["kernel_calls"] for graph in summary["graphs"])
    assert sum(kernel.launches for kernel in story.kernels) == launches
    assert all(kernel.operators for kernel in story.kernels)
    assert any(kernel.ms and kernel.how == "replayed" for kernel in story.kernels)


def test_a_name_is_an_index(story: inspector.Run) -> None:
    graph = story.graphs[1]
    assert story.graphs[graph.name] is graph and graph.kernels[0] == story.kernels[graph.kernels[0].name]
    kernel = next(item for item in graph.kernels if item.kind == "cpp")
    source = graph.kernel_source(kernel.name)
    assert source is not None and source in (graph.text() or "")
    with pytest.raises(KeyError):
        story.graphs["nope"]


@pytest.mark.parametrize("name", LISTS)
def test_a_record_is_flat_and_has_its_columns(story: inspector.Run, name: str) -> None:
    records: inspector.Records[Any] = getattr(story, name)
    for row in records.to_dicts():
        assert tuple(row) == records.columns
        assert all(isinstance(value, (str, int, float, tuple, type(None))) for value in row.values())
    assert records.columns == tuple(field.name for field in fields(records._columns))


def test_breaks_and_recompiles_have_their_lines_and_reasons(tmp_path: Path) -> None:
    run = inspector.open(unpacked(SAMPLES / "breaks" / "run.tar.xz", tmp_path))
    assert run.breaks and run.recompiles
    assert all(item.line and item.reason for item in run.breaks)
    assert all(item.line and item.reason for item in run.recompiles)
    assert all(line.rpartition(":")[2].isdigit() for kernel in run.kernels for line in kernel.lines)
    assert any(kernel.lines for kernel in run.kernels)


@pytest.mark.parametrize("module", ["pandas", "polars"])
def test_frames_have_the_records(story: inspector.Run, module: str) -> None:
    pytest.importorskip(module)
    for name in LISTS:
        records = getattr(story, name)
        frame = getattr(records, f"to_{module}")()
        assert tuple(frame.columns) == records.columns and len(frame) == len(records)


def test_a_frame_that_is_not_installed_is_told(story: inspector.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(inspector.InspectorError, match="pip install pandas"):
        story.kernels.to_pandas()


def test_what_a_notebook_shows_is_the_exported_page(story: inspector.Run) -> None:
    shown = story._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts"') and shown.count("<") == 2
    assert unescape(shown.partition('srcdoc="')[2].rpartition('"')[0]) == story.to_html()


def test_a_table_of_a_hostile_run_is_no_markup(tmp_path: Path) -> None:
    sample = unpacked(SAMPLES / "breaks" / "run.tar.xz", tmp_path) / "breaks"
    run = inspector.open(hostile_run(sample, tmp_path / "hostile", 0))
    for name in LISTS:
        text = getattr(run, name)._repr_html_()
        assert "<script" not in text and "<img" not in text, name
    assert "owned()" in run.breaks._repr_html_()


def test_runs_are_compared(story: inspector.Run) -> None:
    said = story.compare_json(inspector.open(STORY))
    assert said["schema"] == "inspector.diff/1" and story.compare(story).kernels


def test_what_is_promised_is_here_and_documented() -> None:
    page = (SAMPLES.parent / "docs" / "library.md").read_text(encoding="utf-8")
    for name in inspector.__all__:
        assert getattr(inspector, name) is not None and (name in page or name == "__version__")
    for row in (rows.GraphRow, rows.Kernel, rows.Fusion, rows.MissedFusion, rows.Block, rows.FindingRow):
        assert row.__doc__
    assert set(LISTS) <= set(dir(inspector.Run)) and all(f"`{name}`" in page for name in LISTS)
    with pytest.raises(AttributeError):
        _ = inspector.nonsense


# -- capturing


class Torch(SimpleNamespace):
    """As much of torch as the program needs that calls the function."""

    get_num_threads = staticmethod(lambda: 2)
    set_num_threads = staticmethod(lambda _count: None)

    @staticmethod
    def compile(fn: Any, mode: str | None = None) -> Any:
        return functools.partial(fn, **({"mode": mode} if mode else {}))


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[CaptureOptions]:
    """Captures run the program in this process, with a torch that calls; each leaves an empty run."""
    monkeypatch.chdir(tmp_path)
    asked: list[CaptureOptions] = []

    def run(options: CaptureOptions, display: Any) -> Any:
        asked.append(options)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "torch", Torch())
            runpy.run_path(options.command[1], run_name="__main__")
        return SimpleNamespace(exit_code=0, run=STORY)

    monkeypatch.setattr(captured, "capture_command", run)
    return asked


def append(path: str, *, text: str, mode: str = "") -> None:
    with Path(path).open("a") as file:
        file.write(text + mode)


def test_a_function_is_called_as_it_was_asked_for(programs: list[CaptureOptions], tmp_path: Path) -> None:
    target = tmp_path / "said"
    compiled = SimpleNamespace(_torchdynamo_orig_callable=append)
    for fn in (append, cast("Any", compiled)):
        run = inspector.capture(fn, str(target), text="x", calls=3, baseline=False)
        assert isinstance(run, inspector.Run)
    inspector.capture(append, str(target), text="y", calls=2, mode="-autotune", out=tmp_path / "here" / "run")
    assert target.read_text() == "xxx" * 2 + "y-autotune" * 2
    # The room of that name was imported by the capture, and takes nobody's place.
    assert callable(inspector.capture) and [item.baseline for item in programs] == [False, False, True]
    assert programs[2].out == tmp_path / "here" / "run" and len({item.out for item in programs}) == 3


def test_what_cannot_be_pickled_is_told(programs: list[CaptureOptions], tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file, pytest.raises(inspector.InspectorError, match="be pickled"):
        inspector.capture(append, file, text="")
    assert not programs and not (tmp_path / "inspector_runs").exists()


def test_a_cell_runs_with_the_names_that_it_uses(
    programs: list[CaptureOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(linecache.cache, "<cell 1>", (1, None, ["x\n"], "<cell 1>"))
    shell = SimpleNamespace(user_ns={"target": str(tmp_path / "said"), "json": json, "other": lambda: 0})
    shell.push = shell.user_ns.update
    shell.register_magic_function = lambda function, kind, name: shell.__dict__.update(
        {kind + name: function}
    )
    pytest.importorskip("cloudpickle")
    inspector.load_ipython_extension(shell)
    cell = "def text():\n    return json.dumps([target])\nopen(target, 'w').write(text())\n"
    run = shell.cellinspect("answer", cell)
    assert shell.user_ns["answer"] is run and json.loads(Path(shell.user_ns["target"]).read_text()) == [
        shell.user_ns["target"]
    ]
    folder = Path(programs[0].command[1]).parent
    sources, names, *_ = pickle.loads((folder / "called.pickle").read_bytes())
    assert set(names) == {"target", "json"} and sources["<cell 1>"] == ["x\n"]
    assert magic.run_cell("1 + 1", {}) is not None


def test_a_program_that_fails_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "stderr.txt").write_text(
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    f()\nTypeError: no tensor\n'
    )
    (tmp_path / "inspector.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    outcome = SimpleNamespace(exit_code=1, run=tmp_path)
    monkeypatch.setattr(captured, "capture_command", lambda *_, **__: outcome)
    with pytest.raises(inspector.InspectorError, match=r"failed: TypeError: no tensor; see .*logs"):
        inspector.capture(append, "x", text="y")


@pytest.mark.slow
def test_a_real_function_is_captured(tmp_path: Path) -> None:
    import torch

    run = inspector.capture(
        torch.nn.Softmax(-1), torch.ones(8, 8), out=tmp_path / "run", baseline=False, calls=2
    )
    assert run.graphs[0].kernels[0].kind in ("cpp", "triton") and isinstance(run.files, RunFiles)
