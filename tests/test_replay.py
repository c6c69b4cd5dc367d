"""Replay end to end: a child for each graph, and every way in which it can end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from waiting import wait_until, wait_until_gone, written

from inspector.model.problem import InspectorError
from inspector.model.replay import GraphReplay, OutputCheck, ReplayResult, Timing
from inspector.present.replay import lines
from inspector.replay.environment import child_environment
from inspector.replay.protocol import GraphFiles, ReplayOptions
from inspector.replay.spawn import ReplayStopped, replay_graph, replay_graphs
from inspector.replay.store import from_json, load_results, save_result, to_json

FX = """
import torch

class Repro(torch.nn.Module):
    def forward(self, arg0_1, arg1_1):
        add = torch.ops.aten.add.Tensor(arg0_1, arg1_1)
        relu = torch.ops.aten.relu.default(add)
        sum_1 = torch.ops.aten.sum.dim_IntList(relu, [1]);  add = None
        return (relu, sum_1)
"""

CODE = """
import torch
print("the generated code may print")
import sys
print("forked" if "def forked" in sys.orig_argv[2] else "anew")

def call(args):
    arg0_1, arg1_1 = args
    args.clear()
    relu = torch.relu(arg0_1 + arg1_1)
    return (relu, relu.sum(1))

def get_args():
    from torch._dynamo.testing import rand_strided
    arg0_1 = rand_strided((8, 16), (16, 1), device='cpu', dtype=torch.float32)
    arg1_1 = rand_strided((16,), (1,), device='cpu', dtype=torch.float32)
    return [arg0_1, arg1_1]
"""

QUICK = ReplayOptions(rounds=6, min_block_ms=0.2, timeout_s=120)


def write_graph(folder: Path, code: str = CODE, fx: str | None = FX) -> GraphFiles:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "output_code.py").write_text(textwrap.dedent(code))
    if fx is not None:
        (folder / "fx_graph_runnable.py").write_text(textwrap.dedent(fx))
    return GraphFiles.of_folder(folder)


def copy_graph(folder: Path, target: Path, change: Callable[[str], str]) -> GraphFiles:
    """The graph with its output_code.py changed; a change that changes nothing is a defect of the test."""
    text = (folder / "output_code.py").read_text()
    changed = change(text)
    assert changed != text
    return write_graph(target, changed, (folder / "fx_graph_runnable.py").read_text())


def verdicts(replay: GraphReplay) -> dict[str, str]:
    return {check.name: check.verdict for check in replay.outputs}


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> ReplayOptions:
    """Options whose kernel cache the tests share: a precompiled C++ header takes seconds to make."""
    return replace(QUICK, cache_dir=tmp_path_factory.mktemp("replay-cache"))


# -- plan and store, without a child -----------------------------------------------------------------


def test_files_of_a_folder_and_the_forward_of_a_backward(tmp_path: Path) -> None:
    for name in (
        "model__3_forward_1.0",
        "model__3_forward_9.4",
        "model__2_forward_2.1",
        "model__3_backward_5.2",
    ):
        write_graph(tmp_path / name)
    files = GraphFiles.of_folder(tmp_path / "model__3_backward_5.2")
    assert files.name == "model__3_backward_5.2" and files.fx_transformed is None
    assert files.forward == tmp_path / "model__3_forward_1.0" / "fx_graph_runnable.py"
    assert GraphFiles.of_folder(tmp_path / "model__3_forward_9.4").forward is None


def test_the_child_does_not_inherit_what_makes_torch_write(tmp_path: Path) -> None:
    environment = child_environment(
        tmp_path,
        ReplayOptions(device="cuda:1"),
        {
            "PATH": "/bin",
            "CXX": "g++",
            "TORCH_COMPILE_DEBUG": "1",
            "TORCH_COMPILE_DEBUG_DIR": "/x",
            "TORCH_LOGS_OUT": "/x",
            "TORCH_TRACE": "/x",
            "TORCHINDUCTOR_CACHE_DIR": "/x",
            "TORCHINDUCTOR_ENABLED_METRIC_TABLES": "graph_stats",
            "TORCHINDUCTOR_VEC_ISA_OK": "1",
            "TRITON_CACHE_DIR": "/x",
            "CUDA_VISIBLE_DEVICES": "4,7",
        },
    )
    assert environment["PATH"] == "/bin" and environment["CXX"] == "g++"
    assert environment["CUDA_VISIBLE_DEVICES"] == "7"
    assert environment["TORCHINDUCTOR_VEC_ISA_OK"] == "1", "what the compiler can do is the machine's"
    assert environment["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "inductor")
    assert "/x" not in environment.values() and "TORCHINDUCTOR_ENABLED_METRIC_TABLES" not in environment


RESULT = ReplayResult(
    machine={"torch": "2.13.0"},
    graphs=(
        GraphReplay(
            "g",
            eager=Timing(2.0, 0.1, 30),
            compiled=Timing(1.0, 0.2, 30),
            outputs=(
                OutputCheck(0, "match", dtype="float32", shape=(2, 3), error_compiled=0.0, error_eager=1e-7),
                OutputCheck(1, "unverifiable", reason="random", kind="mutated_input"),
            ),
            notes=("a note",),
            device="cpu",
            log="text",
        ),
        GraphReplay("h", failure="crashed", compiled_wall=Timing(3.0, 0.3, 5)),
    ),
    started=1_700_000_000.5,
    options={"rounds": 30},
)


def test_notes_of_many_graphs_that_differ_in_a_number_are_one_line() -> None:
    graphs = [
        GraphReplay(f"g{number}", notes=("inputs: made up", f"building the kernels took {number}.5 s"))
        for number in range(3)
    ]
    told = [item.text for item in lines(replace(RESULT, graphs=tuple(graphs)), 100) if "note: " in item.text]
    assert told == [
        "note: inputs: made up",
        "note: building the kernels took 0.5 s; alike for 2 more graphs",
    ]


def test_the_json_contract_and_back() -> None:
    data = json.loads(json.dumps(to_json(RESULT), allow_nan=False))
    assert data["schema"] == "inspector.replay/1"
    graph = data["graphs"][0]
    assert (graph["eager_ms"], graph["eager_ms_iqr"], graph["compiled_ms"], graph["speedup"]) == (
        2.0,
        0.1,
        1.0,
        2.0,
    )
    assert graph["host_gap_ms"] is None and graph["kernels"] == [] and data["notes"] == []
    assert {"index", "verdict", "error_compiled", "error_eager"} <= graph["outputs"][0].keys()
    assert data["graphs"][1]["failure"] == "crashed" and data["graphs"][1]["speedup"] is None
    assert from_json(data) == RESULT


@pytest.mark.parametrize(
    "data", [[], {}, {"schema": "inspector.summary/1"}, {"schema": "inspector.replay/1"}]
)
def test_what_is_not_a_replay_result_is_refused(data: object) -> None:
    with pytest.raises(InspectorError, match="replay result"):
        from_json(data)


def test_older_results_are_kept(tmp_path: Path) -> None:
    first = save_result(RESULT, tmp_path)
    second = save_result(replace(RESULT, graphs=RESULT.graphs[:1]), tmp_path)
    later = save_result(replace(RESULT, started=RESULT.started + 60), tmp_path)
    assert len({first, second, later}) == 3 and {path.parent for path in (first, later)} == {
        tmp_path / "replay"
    }
    (tmp_path / "replay" / "broken.json").write_text("{")
    results = load_results(tmp_path)
    assert [result.started for result in results] == sorted(result.started for result in results)
    assert len(results) == 3
    assert sorted(path.suffix for path in (tmp_path / "replay").iterdir()) == [".json"] * 4


def test_a_result_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "replay").write_text("a file in the way")
    with pytest.raises(InspectorError, match="cannot write"):
        save_result(RESULT, tmp_path)


def test_no_generated_code_and_no_interpreter_are_results(tmp_path: Path) -> None:
    result = replay_graphs([GraphFiles("gone", tmp_path / "output_code.py")])
    assert "there is no output_code.py" in (result.graphs[0].failure or "")
    files = write_graph(tmp_path / "graph")
    replay = replay_graph(files, ReplayOptions(python=str(tmp_path / "python")))
    assert "cannot start" in (replay.failure or "")


# -- children: small graphs without kernels -----------------------------------------------------------


@pytest.mark.real_child
@pytest.mark.slow
def test_a_graph_is_timed_and_checked(tmp_path: Path) -> None:
    said: list[str] = []
    result = replay_graphs([write_graph(tmp_path / "graph")], QUICK, said.append)
    (replay,) = result.graphs
    assert replay.failure is None and replay.device == "cpu"
    assert verdicts(replay) == {"relu": "match", "sum_1": "match"}
    assert replay.outputs[1].shape == (8,) and replay.outputs[1].dtype == "float32"
    assert replay.outputs[1].rtol == 1.3e-6 and replay.outputs[1].elements == 8
    assert replay.eager and replay.compiled and replay.eager.rounds == 6
    assert 0 < replay.compiled.median_ms < 1000 and replay.compiled.iqr_ms >= 0
    assert result.machine["torch"] and int(str(result.machine["threads"])) >= 1 and result.machine["cpu"]
    assert "the generated code may print" in replay.log and "anew" in replay.log
    assert any(line.startswith("graph (1/1): timing") for line in said)
    json.dumps(to_json(result), allow_nan=False)


@pytest.mark.slow
def test_a_wrong_output_is_found_and_only_that_one(tmp_path: Path) -> None:
    files = write_graph(tmp_path / "graph", CODE.replace("relu.sum(1)", "relu.sum(1) + 1e-2"))
    replay = replay_graph(files, QUICK)
    assert verdicts(replay) == {"relu": "match", "sum_1": "mismatch"}
    assert replay.outputs[1].error_compiled == pytest.approx(1e-2, rel=1e-2)
    assert (replay.outputs[1].error_eager or 0) < 1e-5
    assert "8 of 8 elements" in replay.outputs[1].reason
    assert "forked" in replay.log or shutil.which("nvidia-smi")


@pytest.mark.real_child
@pytest.mark.slow
def test_a_crash_keeps_what_was_measured(tmp_path: Path) -> None:
    crashing = CODE.replace(
        "    args.clear()",
        "    args.clear()\n    import os, signal\n    globals()['n'] = globals().get('n', 0) + 1\n"
        "    if n > 40: os.kill(os.getpid(), signal.SIGSEGV)",
    )
    replay = replay_graph(
        write_graph(tmp_path / "graph", crashing), replace(QUICK, rounds=1000, min_block_ms=0.01)
    )
    assert replay.failure == "the child crashed with SIGSEGV while timing"
    assert replay.eager is not None and replay.eager.rounds >= 3
    at_once = replay_graph(
        write_graph(tmp_path / "other", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"), QUICK
    )
    assert at_once.failure == "the child crashed with SIGSEGV while building the kernels"
    assert at_once.log


@pytest.mark.real_child
@pytest.mark.slow
def test_the_time_limit_ends_the_child_and_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "pids"
    hanging = f"""
        import os, subprocess, time
        helper = subprocess.Popen(["sleep", "600"])
        open({str(note)!r}, "w").write(f"{{os.getpid()}} {{helper.pid}}")
        time.sleep(600)
    """
    clock = time.monotonic
    # The limit has passed as soon as both are there.
    monkeypatch.setattr("inspector.process.time.monotonic", lambda: clock() + 1000 * bool(written(note)))
    options = replace(QUICK, timeout_s=1000, cache_dir=tmp_path)
    replay = replay_graph(write_graph(tmp_path / "graph", hanging), options)
    monkeypatch.undo()
    assert replay.failure == "stopped at the time limit of 1000 s while building the kernels"
    wait_until_gone(*map(int, note.read_text().split()))


@pytest.mark.real_child
@pytest.mark.slow
@pytest.mark.parametrize("how", ["stop", "interrupt"])
def test_stopping_kills_the_child(tmp_path: Path, how: str) -> None:
    note = tmp_path / "pid"
    code = f"import os, time\nopen({str(note)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    files, options = write_graph(tmp_path / "graph", code), replace(QUICK, cache_dir=tmp_path)
    if how == "stop":
        with pytest.raises(ReplayStopped):
            replay_graph(files, options, should_stop=lambda: bool(written(note)))
    else:

        def interrupt() -> bool:
            if written(note):
                raise KeyboardInterrupt
            return False

        with pytest.raises(KeyboardInterrupt):
            replay_graphs([files], options, should_stop=interrupt)
    wait_until_gone(int(note.read_text()))


@pytest.mark.slow
def test_the_child_dies_with_its_parent(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = f"import os, time\nopen({str(note)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    write_graph(tmp_path / "graph", code)
    program = (
        "import sys; from pathlib import Path;"
        "from inspector.replay.protocol import GraphFiles, ReplayOptions;"
        "from inspector.replay.spawn import replay_graph; graph = Path(sys.argv[1]);"
        "replay_graph(GraphFiles.of_folder(graph), ReplayOptions(cache_dir=graph.parent))"
    )
    # Nobody removes what a killed parent leaves in the temporary folder but pytest.
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "graph")], env=environment)
    wait_until(lambda: written(note))
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    wait_until_gone(int(note.read_text()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def call(args:\n    pass", "not valid Python: line 1"),
        ("x = 1", "has no `call`"),
        ("def call(args):\n    pass", "says nothing of its inputs"),
        (CODE.replace("torch.relu", "torch.nothing"), "AttributeError: module 'torch' has no attribute"),
        (CODE.replace("[arg0_1, arg1_1]\n", "[arg0_1]\n"), "takes 1 arguments, the FX graph 2"),
        (
            CODE.replace(
                'print("the generated code may print")',
                "make_anew = torch._C._dynamo.guards._make_anew",
            ).replace("torch.relu(", "make_anew("),
            "needs torch._C._dynamo.guards._make_anew, which torch",
        ),
    ],
    ids=["syntax", "no call", "no inputs", "no attribute", "arguments", "missing name"],
)
def test_code_that_cannot_run_is_one_sentence(tmp_path: Path, code: str, reason: str) -> None:
    replay = replay_graph(write_graph(tmp_path / "graph", code), QUICK)
    assert replay.failure is not None and reason in replay.failure
    assert "\n" not in replay.failure and "Traceback" not in replay.failure


@pytest.mark.slow
def test_the_fx_graph_may_be_missing_or_broken(tmp_path: Path) -> None:
    files = write_graph(tmp_path / "graph", fx=None)
    assert "fx_graph_runnable.py" in (replay_graph(files, QUICK).failure or "")
    printed = "class <lambda>(torch.nn.Module):" + FX.partition("class Repro(torch.nn.Module):")[2]
    files.output_code.with_name("fx_graph_runnable.py").write_text("ERROR: Repro will not work as intended, ")
    files.output_code.with_name("fx_graph_transformed.py").write_text(printed)
    replay = replay_graph(GraphFiles.of_folder(files.output_code.parent), QUICK)
    assert replay.failure is None and set(verdicts(replay).values()) == {"match"}
    assert replay.eager_label == "decomposed FX graph after Inductor's passes"
    assert any("not valid Python" in note for note in replay.notes)


@pytest.mark.slow
def test_older_modules_random_outputs_and_written_inputs(tmp_path: Path) -> None:
    """One child for three rules: inputs out of benchmark_compiled_module (before 2.11), an output that
    depends on random numbers, and inputs that the graph writes to, one of them wrongly."""
    fx = """
        import torch
        class Repro(torch.nn.Module):
            def forward(self, arg0_1, arg1_1, arg2_1):
                rand = torch.ops.aten.rand.default([4])
                mul = torch.ops.aten.mul.Tensor(rand, arg0_1)
                add = torch.ops.aten.add.Tensor(arg0_1, 1)
                add_1 = torch.ops.aten.add.Tensor(arg1_1, 1)
                copy_ = torch.ops.aten.copy_.default(arg0_1, add)
                copy__1 = torch.ops.aten.copy_.default(arg1_1, add_1)
                return (mul, arg2_1, None)
    """
    code = """
        import torch
        def call(args):
            arg0_1, arg1_1, arg2_1 = args
            args.clear()
            out = torch.rand(4) * arg0_1
            arg0_1.add_(1)
            arg1_1.add_(2)
            return (out, arg2_1, None)

        def benchmark_compiled_module(times=10, repeat=10):
            from torch._dynamo.testing import rand_strided
            from torch._inductor.utils import print_performance
            arg0_1 = rand_strided((4,), (1,), device='cpu', dtype=torch.float32)
            arg1_1 = rand_strided((4,), (1,), device='cpu', dtype=torch.float32)
            arg2_1 = 16
            fn = lambda: call([arg0_1, arg1_1, arg2_1])
            return print_performance(fn, times=times, repeat=repeat)
    """
    replay = replay_graph(write_graph(tmp_path / "graph", code, fx), QUICK)
    assert replay.failure is None
    checks = {check.name: check for check in replay.outputs}
    assert checks["mul"].verdict == "unverifiable" and "random numbers" in checks["mul"].reason
    assert checks["arg2_1"].verdict == "match" and checks["arg2_1"].dtype == "int"
    assert (checks["arg0_1"].kind, checks["arg0_1"].verdict) == ("mutated_input", "match")
    assert checks["arg1_1"].verdict == "mismatch" and checks["arg1_1"].index == 4
    assert checks["arg1_1"].error_compiled == pytest.approx(1.0)


@pytest.mark.slow
def test_constants_and_what_another_torch_lacks(tmp_path: Path) -> None:
    fx = """
        import torch
        class Repro(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer('_tensor_constant0', torch.tensor([1.0, 2.0, 3.0]))
            def forward(self, arg0_1):
                _tensor_constant0 = self._tensor_constant0
                add = torch.ops.aten.add.Tensor(arg0_1, _tensor_constant0)
                return (add,)
    """
    code = """
        import torch
        from torch._inductor.no_such_module import helper
        assert_size_of_the_future = torch._C._dynamo.guards.assert_size_of_the_future
        _tensor_constant0 = None
        def call(args):
            arg0_1, = args
            args.clear()
            assert_size_of_the_future(arg0_1)
            return (arg0_1 + _tensor_constant0,)
        def get_args():
            from torch._dynamo.testing import rand_strided
            global _tensor_constant0
            _tensor_constant0 = rand_strided((3,), (1,), device='cpu', dtype=torch.float32)
            return [rand_strided((3,), (1,), device='cpu', dtype=torch.float32)]
    """
    replay = replay_graph(write_graph(tmp_path / "graph", code, fx), QUICK)
    assert replay.failure is None and verdicts(replay) == {"add": "match"}
    assert any("checks by assert_size_of_the_future are skipped" in note for note in replay.notes)
    unknown = replay_graph(
        write_graph(tmp_path / "other", code, fx.replace("constant0'", "constant1'")), QUICK
    )
    assert unknown.failure is not None or set(verdicts(unknown).values()) == {"unverifiable"}


# -- children: real captures --------------------------------------------------------------------------


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.avx512
@pytest.mark.slow
def test_a_captured_graph_matches_and_a_planted_sign_is_found(
    corpus: Path, tmp_path: Path, warm: ReplayOptions
) -> None:
    run = corpus / "cpu-torch2.13" / "breaks"
    before = snapshot(run)
    folder = next(run.glob("**/model__2_forward_7.2"))
    good = replay_graph(GraphFiles.of_folder(folder), warm)
    assert good.failure is None and len(good.outputs) == 8
    assert set(verdicts(good).values()) == {"match"}
    assert snapshot(run) == before
    # exp(x + max): the softmax divides the error out, its saved sum does not.
    planted = copy_graph(
        folder, tmp_path / "sign", lambda text: text.replace("tmp3 = tmp0 - tmp2", "tmp3 = tmp0 + tmp2")
    )
    bad = verdicts(replay_graph(planted, warm))
    assert bad.pop("sum_1") == "mismatch"
    assert set(bad.values()) == {"match"}


@pytest.mark.avx512
@pytest.mark.slow
def test_a_planted_index_is_found(corpus: Path, tmp_path: Path, warm: ReplayOptions) -> None:
    folder = next((corpus / "cpu-torch2.13" / "softmax").glob("**/model__0_inference_0.0"))
    planted = copy_graph(
        folder,
        tmp_path / "index",
        lambda text: text.replace(
            "tmp3.store(out_ptr2 + static_cast<int64_t>(x1 + 100L*x0), static_cast<int64_t>(4L))",
            "tmp3.store(out_ptr2 + static_cast<int64_t>(x1 + 100L*(99L - x0)), static_cast<int64_t>(4L))",
        ),
    )
    replay = replay_graph(planted, warm)
    assert verdicts(replay) == {"div": "mismatch"}
    assert (replay.outputs[0].outside_compiled or 0) <= 400


@pytest.mark.avx512
@pytest.mark.slow
def test_an_older_capture_includes_this_torchs_header(corpus: Path, warm: ReplayOptions) -> None:
    folder = next((corpus / "cpu-torch2.6.0" / "softmax").glob("**/model__0_inference_0.0"))
    replay = replay_graph(GraphFiles.of_folder(folder), warm)
    assert any("cpp_prefix.h was put in its place" in note for note in replay.notes)
    assert any(note.startswith("captured with torch 2.6.0") for note in replay.notes)
    # Another torch's headers may no longer fit the kernel; then the sentence says so.
    assert verdicts(replay) == {"div": "match"} or "captured with torch 2.6.0" in (replay.failure or "")


@pytest.mark.avx512
@pytest.mark.slow
def test_a_backward_graph_is_replayed_on_its_forwards_activations(corpus: Path, warm: ReplayOptions) -> None:
    folder = next((corpus / "cpu-torch2.13" / "breaks").glob("**/model__7_backward_20.9"))
    replay = replay_graph(GraphFiles.of_folder(folder), warm)
    assert replay.failure is None
    assert "6 of 9 inputs are what the forward graph saved" in replay.notes
    assert set(verdicts(replay).values()) <= {"match", "compiled_closer", "eager_closer"}


@pytest.mark.slow
def test_a_gpu_that_is_asked_for_and_not_there(corpus: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    folder = next((corpus / "h200-torch2.11" / "softmax").glob("**/model__0_inference_0.0"))
    replay = replay_graph(GraphFiles.of_folder(folder), replace(QUICK, device="cuda:0"))
    assert replay.failure is not None and replay.failure.startswith(
        "needs a CUDA device; this machine has none"
    )
    assert replay.device == "cuda"


@pytest.mark.avx512
@pytest.mark.slow
def test_no_compiler_is_said_in_one_sentence(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = next((corpus / "cpu-torch2.13" / "softmax").glob("**/model__0_inference_0.0"))
    monkeypatch.setenv("CXX", str(tmp_path / "no-such-compiler"))
    replay = replay_graph(GraphFiles.of_folder(folder), QUICK)
    assert replay.failure is not None and "no working C++ compiler" in replay.failure
    assert "\n" not in replay.failure


# -- a GPU --------------------------------------------------------------------------------------------

GPU_PROGRAM = """
import torch

@torch.compile
def function(x, w, i):
    y = torch.softmax(x @ w, -1) * 2
    return y, y[i].sum(-1), torch.nn.functional.gelu(x.half())

x = torch.randn(256, 512, device="cuda")
w = torch.randn(512, 512, device="cuda")
i = torch.randint(0, 256, (64,), device="cuda")
with torch.no_grad():
    function(x, w, i)
"""


@pytest.fixture(scope="module")
def gpu_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    folder = tmp_path_factory.mktemp("gpu")
    (folder / "program.py").write_text(GPU_PROGRAM)
    environment = {
        **os.environ,
        "TORCH_COMPILE_DEBUG": "1",
        "TORCH_COMPILE_DEBUG_DIR": str(folder),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
    }
    subprocess.run([sys.executable, "program.py"], cwd=folder, env=environment, check=True, timeout=300)
    return next(path.parent for path in folder.rglob("output_code.py") if "torchinductor" in path.parts)


@pytest.mark.gpu
@pytest.mark.slow
def test_a_cuda_graph_is_timed_by_events_and_by_the_wall(gpu_folder: Path, warm: ReplayOptions) -> None:
    result = replay_graphs([GraphFiles.of_folder(gpu_folder)], warm)
    (replay,) = result.graphs
    assert replay.failure is None and replay.device == "cuda"
    assert len(replay.outputs) == 3
    assert {check.verdict for check in replay.outputs} <= {"match", "compiled_closer", "eager_closer"}
    for timing in (replay.eager, replay.compiled, replay.eager_wall, replay.compiled_wall):
        assert timing is not None and 0 < timing.median_ms < 100
    assert any("[0, 256)" in note for note in replay.notes)
    assert int(str(result.machine["cuda_devices"])) >= 1 and result.machine["device"] != "cpu"


@pytest.mark.gpu
@pytest.mark.slow
def test_a_planted_error_in_a_triton_kernel_is_found(
    gpu_folder: Path, tmp_path: Path, warm: ReplayOptions
) -> None:
    planted = copy_graph(
        gpu_folder, tmp_path / "sign", lambda text: text.replace("libdevice.erf(", "-libdevice.erf(")
    )
    replay = replay_graph(planted, warm)
    checks = {check.dtype: check.verdict for check in replay.outputs}
    assert checks["float16"] == "mismatch"
    assert "mismatch" not in {check.verdict for check in replay.outputs if check.dtype == "float32"}
