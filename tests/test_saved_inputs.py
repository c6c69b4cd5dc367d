"""Arguments of a graph's first call: kept by the recorder's hook, read by the replay worker."""

from __future__ import annotations

import io
import json
import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from words import texts

from inspector.capture.environment import CaptureOptions
from inspector.capture.launch import capture
from inspector.capture.recorder.guard import Guards
from inspector.capture.recorder.inputs import ALIGNMENT, InputSaver
from inspector.capture.recorder.sink import Sink
from inspector.cli import cli
from inspector.cli.capture import byte_count
from inspector.contract.summary import inputs_json
from inspector.model.problem import InspectorError
from inspector.model.record import ProcessRecord
from inspector.present.record import result_lines
from inspector.readers.record import parse_record
from inspector.readers.run import Run
from inspector.replay.protocol import GraphFiles, ReplayOptions
from inspector.replay.spawn import replay_graphs
from inspector.replay.worker.inputs.arguments import Fill, Inputs, TensorSpec
from inspector.replay.worker.inputs.stored import StoredError, is_complete, load_stored

PROCESS, GRAPH = "run_1-pid_7", "model__0_inference_0.0"


class Saved:
    """A recorder that keeps inputs in a folder of its own, and a class shaped like torch's."""

    def __init__(self, folder: Path, limit: int = 1 << 20) -> None:
        class CompiledFxGraph:
            """torch/_inductor/output_code.py; __eq__ without __hash__, as a dataclass has it."""

            __module__ = "torch._inductor.output_code"
            __hash__ = None  # type: ignore[assignment]

            def __init__(self, current_callable: Any, graph: Any) -> None:
                self.current_callable = current_callable

            def __eq__(self, other: object) -> bool:
                return True

            def __call__(self, inputs: Any) -> Any:
                return self.current_callable(inputs)

        self.folder = folder
        self.graph = CompiledFxGraph
        self.original = CompiledFxGraph.__call__
        module = ModuleType("torch._inductor.output_code")
        module.CompiledFxGraph = CompiledFxGraph  # type: ignore[attr-defined]
        self.log = folder / "log"
        self.sink = Sink(str(folder / "record"), str(self.log))
        self.guards = Guards(self.sink.log)
        self.saver = InputSaver(str(folder / "inputs"), limit)
        self.saver.watch(module, self.guards, self.sink)

    def compile(self, function: Callable[[list[Any]], Any], names: tuple[str, ...] = ()) -> Any:
        return self.graph(function, SimpleNamespace(graph_input_names=list(names)))

    @property
    def path(self) -> Path:
        return self.folder / "inputs" / PROCESS / f"{GRAPH}.pt"

    def record(self) -> ProcessRecord:
        return parse_record((self.folder / "record" / "rank0.jsonl").read_text(), "record/rank0.jsonl")

    def back(self, specs: list[Any]) -> list[Any]:
        """The arguments as the replay worker would use them."""
        stored = load_stored(self.path, specs)
        inputs = Inputs(stored.specs, 0)
        inputs.stored = stored.storages
        inputs.fill([Fill()] * len(specs))
        return inputs.fresh()


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Saved:
    path = f"/x/torch_compile_debug/{PROCESS}/torchinductor/{GRAPH}"
    virtualized = SimpleNamespace(V=SimpleNamespace(debug=SimpleNamespace(_path=path)))
    monkeypatch.setitem(sys.modules, "torch._inductor.virtualized", virtualized)
    monkeypatch.delenv("RANK", raising=False)
    return Saved(tmp_path)


def specs_of(values: list[Any]) -> list[Any]:
    """Specs as output_code.py gives them: sizes and dtypes, of memory that it knows nothing about."""
    return [
        TensorSpec(tuple(value.shape), tuple(value.stride()), value.dtype, "cpu", number)
        if isinstance(value, torch.Tensor)
        else value
        for number, value in enumerate(values)
    ]


def arguments() -> list[Any]:
    base = torch.arange(64.0)
    return [
        base[16:40].view(4, 6),
        base[16:40].view(6, 4).t(),
        torch.arange(3).expand(5, 3),
        torch.tensor([True, False, True]),
        torch.randn(7).to(torch.bfloat16),
        torch.randn(3, dtype=torch.complex64),
        torch.randn(4).to(torch.float8_e4m3fn),
        torch.empty(0, 4),
        torch.tensor(2.5, dtype=torch.float64),
        torch.nn.Parameter(torch.randn(2, 2)),
        torch.arange(16.0)[1:9],
        17,
        2.5,
    ]


def bits(value: Any) -> Any:
    return value.contiguous().view(torch.uint8) if isinstance(value, torch.Tensor) and value.dim() else value


def test_every_kind_of_argument_comes_back_as_it_was(saved: Saved) -> None:
    values = arguments()
    saved.compile(lambda inputs: None, tuple(f"arg{number}_1" for number in range(13)))(list(values))
    assert not saved.log.exists()
    specs = specs_of(values)
    back = saved.back(specs)
    for value, same in zip(values, back, strict=True):
        if isinstance(value, torch.Tensor):
            assert (same.shape, same.stride(), same.dtype) == (value.shape, value.stride(), value.dtype)
            assert torch.equal(bits(same), bits(value.detach()))
        else:
            assert same == value
    assert is_complete(saved.path)
    # Two views of one tensor still share their memory; one that starts in between has its own.
    back[0].zero_()
    assert not back[1].any()
    assert back[10].storage_offset() == 0
    (inputs,) = saved.record().inputs
    assert (inputs.file, inputs.arguments, inputs.problem) == (f"inputs/{PROCESS}/{GRAPH}.pt", 13, None)
    # Of the first tensor's 256 bytes only those from byte 64 to 160 are reached.
    assert inputs.bytes < 3 * ALIGNMENT + 256


def test_they_are_kept_before_the_graph_writes_to_them_and_frees_them(saved: Saved) -> None:
    def run(inputs: list[Any]) -> Any:
        first = inputs[0].add_(1)
        inputs.clear()
        return first

    value = torch.arange(4.0)
    saved.compile(run)([value])
    assert saved.back(specs_of([value]))[0].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert value.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_only_the_first_call_is_watched(saved: Saved) -> None:
    first, second = saved.compile(lambda inputs: inputs[0]), saved.compile(lambda inputs: inputs[0])
    assert saved.graph.__call__ is not saved.original
    assert first([torch.zeros(1)]).tolist() == [0]
    first([torch.ones(1)])
    assert saved.back([TensorSpec((1,), (1,), torch.float32, "cpu", 0)])[0].tolist() == [0]
    assert saved.graph.__call__ is not saved.original
    second([torch.ones(1)])
    assert saved.graph.__call__ is saved.original
    assert len(saved.record().inputs) == 2
    assert not list(saved.path.parent.glob("*.pt.*"))


def test_a_graph_that_was_never_called_is_not_mistaken_for_another(saved: Saved) -> None:
    for _ in range(8):
        saved.compile(lambda inputs: None)
    stray = saved.graph.__new__(saved.graph)
    stray.current_callable = lambda inputs: "its own"
    assert stray([torch.zeros(1)]) == "its own"
    assert not saved.path.exists()


def test_a_graph_without_a_folder_is_left_alone(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._inductor.virtualized")
    saved.compile(lambda inputs: None)([torch.zeros(1)])
    assert not saved.path.exists()
    assert saved.graph.__call__ is saved.original


def test_small_arguments_come_first_and_what_is_too_much_is_said(saved: Saved) -> None:
    saved.saver.limit = 100
    # Made-up arguments are drawn with a seed of their own, which is not this one.
    torch.manual_seed(1234)
    values = [torch.randn(1000), torch.arange(5), torch.randn(6), torch.randn(500)]
    saved.compile(lambda inputs: None)(list(values))
    (inputs,) = saved.record().inputs
    assert (inputs.left_out, inputs.left_out_bytes, inputs.bytes) == ((0, 3), 6000, 64)
    assert inputs.limit == 100
    stored = load_stored(saved.path, specs_of(values))
    assert (stored.positions, stored.complete) == ({1, 2}, False)
    assert not is_complete(saved.path)
    back = saved.back(specs_of(values))
    assert torch.equal(back[1], values[1])
    assert not torch.equal(back[0], values[0])
    assert texts(result_lines([saved.record()])) == [
        "saved inputs: 64 B of 1 graph; 2 arguments (6.00 KB) left out, over --save-inputs's size"
    ]
    assert inputs_json([saved.record()])[0]["left_out"] == [0, 3]


class Subclass(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("the recorder called an operator of the program's own tensor")


def test_what_is_no_plain_tensor_is_named_and_not_touched(saved: Saved) -> None:
    values: list[Any] = [
        torch.zeros(3),
        torch.Tensor._make_subclass(Subclass, torch.zeros(2)),
        torch.eye(3).to_sparse(),
        torch.randn(2, dtype=torch.complex64).conj(),
        torch.Generator(),
        torch.empty(3, device="meta"),
    ]
    saved.compile(lambda inputs: None)(list(values))
    assert saved.record().inputs[0].unknown == (1, 2, 3, 4, 5)
    assert not saved.log.exists()
    assert not is_complete(saved.path)


def test_the_program_s_own_modes_see_nothing_of_it(saved: Saved) -> None:
    seen: list[Any] = []

    class Dispatch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    class Function(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    state = torch.get_rng_state()
    weight = torch.ones(3, requires_grad=True)
    compiled = saved.compile(lambda inputs: inputs[0])
    with Dispatch(), Function():
        assert compiled([weight]) is weight
    assert seen == []
    assert saved.path.exists()
    assert torch.equal(torch.get_rng_state(), state)
    assert weight._version == 0


# -- faults


@pytest.mark.parametrize("part", ["torch.save", "os.replace", "os.makedirs"])
def test_a_fault_leaves_the_call_as_it_was_and_no_half_file(
    part: str, saved: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = saved.compile(lambda inputs: inputs[0] + 1)
    saved.sink.write({"kind": "novelty"})

    def broken(*args: Any, **kwargs: Any) -> None:
        if part == "torch.save":
            Path(args[1]).write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(part, broken)
    assert compiled([torch.zeros(1)]).tolist() == [1]
    assert compiled([torch.zeros(1)]).tolist() == [1]
    assert [path for path in (saved.folder / "inputs").rglob("*") if path.is_file()] == []
    assert "fault in CompiledFxGraph.__call__/inputs" in saved.log.read_text()
    (inputs,) = saved.record().inputs
    assert (inputs.file, inputs.problem) == (None, "OSError: no space left on device")
    assert "none of model__0_inference_0.0: OSError" in texts(result_lines([saved.record()]))[0]


@pytest.mark.parametrize("hook", ["making", "made", "called"])
def test_a_hook_that_always_fails_changes_nothing(
    hook: str, tmp_path: Path, saved: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InputSaver, hook, lambda *args, **kwargs: 1 // 0)
    hurt = Saved(tmp_path)
    for number in range(5):
        assert hurt.compile(lambda inputs: inputs[0] + 1)([number]) == 1 + number
    assert "ZeroDivisionError" in hurt.log.read_text()
    assert not hurt.path.exists()


def test_a_version_that_makes_graphs_elsewhere_is_not_touched(saved: Saved) -> None:
    module = ModuleType("torch._inductor.codecache")
    module.CompiledFxGraph = saved.graph  # type: ignore[attr-defined]
    before = saved.graph.__init__
    saved.saver.watch(module, saved.guards, saved.sink)
    saved.saver.watch(ModuleType("torch._inductor.codecache"), saved.guards, saved.sink)
    assert saved.graph.__init__ is before


# -- reading what may come from anywhere


SCHEMA = "inspector.inputs/1"
TENSOR = {"kind": "tensor", "dtype": "int64", "size": [4], "stride": [1], "start": 0}


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("executed",)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Evil(), "cannot be read: UnpicklingError"),
        ({"schema": "inspector.inputs/9"}, "has the schema 'inspector.inputs/9'"),
        ({"schema": SCHEMA}, "cannot be read: KeyError"),
        ({"schema": SCHEMA, "arguments": [], "storages": {}}, "holds 0 arguments, the graph takes 1"),
        (
            {
                "schema": SCHEMA,
                "arguments": [TENSOR],
                "storages": {},
            },
            "argument 0 is a int64 in it, not so in the graph",
        ),
        (
            {
                "schema": SCHEMA,
                "arguments": [{**TENSOR, "dtype": "float32", "stride": [9], "storage": 0}],
                "storages": {0: torch.zeros(16, dtype=torch.uint8)},
            },
            "argument 0 reaches beyond the memory that was kept",
        ),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_is_refused_and_nothing_in_it_runs(
    data: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.pt"
    torch.save(data, path)
    with pytest.raises(StoredError, match=r"model\.pt|argument 0") as caught:
        load_stored(path, [TensorSpec((4,), (1,), torch.float32, "cpu", 0)])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not is_complete(path) or "0 arguments" in message or "beyond" in message
    assert not Path("executed").exists()


def test_the_captured_call_s_sizes_are_used_where_they_are_dynamic(saved: Saved) -> None:
    saved.compile(lambda inputs: None)([3, torch.ones(3, 2)])
    back = saved.back([8, TensorSpec((8, 2), (2, 1), torch.float32, "cpu", 0)])
    assert back[0] == 3
    assert back[1].shape == (3, 2)


# -- the option


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), ("10", 10), ("2K", 2048), ("256M", 1 << 28), ("1.5G", 3 << 29), ("4 MiB", 4 << 20)],
)
def test_sizes_are_read_as_people_write_them(text: str, count: int) -> None:
    parameter = SimpleNamespace(opts=["--save-inputs"])
    assert byte_count(None, parameter, text) == count  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--save-inputs", "python", "x.py"], "--save-inputs python: not a size"),
        (["--save-inputs=lots", "--", "python"], "--save-inputs lots: not a size"),
        (["--save-inputs", "--no-record", "--", "python"], "--save-inputs needs the recorder"),
    ],
)
def test_what_makes_no_sense_is_refused(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["capture", *words])
    assert isinstance(result.exception, InspectorError)
    assert message in str(result.exception)
    assert list(tmp_path.iterdir()) == []


# -- end to end

SHIFTED = """
    import torch
    torch.manual_seed(0)
    def f(table, ids, x):
        x.add_(1)
        return table[ids - 1000] * x.sum()
    compiled = torch.compile(f)
    for start in (1000, 1004):
        print(compiled(torch.randn(8, 4), torch.arange(start, start + 4), torch.ones(3)).shape)
"""
"""Made-up indices are small: less 1,000 none of them is inside the table."""


def captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_inputs: int | None) -> Run:
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(textwrap.dedent(SHIFTED))
    options = CaptureOptions(command=("program.py",), out=Path("run"), save_inputs=save_inputs)
    assert capture(options, stderr=io.StringIO()).exit_code == 0
    assert not Path("run/logs/recorder.log").exists()
    return Run.open("run")


@pytest.mark.slow
def test_only_saved_inputs_replay_a_graph_whose_indices_can_not_be_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = captured(tmp_path, monkeypatch, 1 << 20)
    (inputs,) = run.records[0].inputs
    assert (inputs.file, inputs.arguments, inputs.left_out) == (
        f"inputs/{run.records[0].graphs[0].process}/model__0_inference_0.0.pt", 3, (),
    )  # fmt: skip
    (graph,) = run.graphs
    assert graph.folder is not None
    files = GraphFiles.of_folder(graph.folder, graph.ident)
    assert files.saved_inputs is not None
    options = ReplayOptions(rounds=3)
    (result,) = replay_graphs([files], options).graphs
    assert result.failure is None
    assert {check.verdict for check in result.outputs} == {"match"}
    assert "inputs: saved at capture, all" in result.notes

    made = GraphFiles(files.name, files.output_code, files.fx_runnable, files.fx_transformed)
    (result,) = replay_graphs([made], options).graphs
    assert "no made-up integers keep the indices of index inside its tensor" in str(result.failure)
    assert "inputs: made up" in result.notes

    summary = CliRunner().invoke(cli, ["summary", "run", "--json"])
    assert json.loads(summary.stdout)["saved_inputs"][0]["arguments"] == 3
