"""What the recorder says of Triton kernels that were really compiled, tuned and launched."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from test_recorder_capture import FAULTS, HOOKS

from inspector.capture.environment import CaptureOptions
from inspector.capture.launch import capture
from inspector.readers.run import Run
from inspector.replay.protocol import GraphFiles, ReplayOptions
from inspector.replay.spawn import replay_graphs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="needs a CUDA device"),
]

PROGRAM = """
    import torch
    torch.manual_seed(0)
    def f(x, w, order):
        y = torch.softmax(x @ w, 1)
        return (y * 2 + 1).relu()[order], y.sum(0)
    compiled = torch.compile(f)
    x, w = torch.randn(512, 512, device="cuda"), torch.randn(512, 512, device="cuda")
    for _ in range(3):
        out = compiled(x, w, torch.randperm(512, device="cuda"))
    print(out[0].shape)
"""


def captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **options: object) -> Run:
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(textwrap.dedent(PROGRAM))
    asked = CaptureOptions(command=("program.py",), out=Path("run"), **options)  # type: ignore[arg-type]
    assert capture(asked, stderr=io.StringIO()).exit_code == 0
    assert not Path("run/logs/recorder.log").exists()
    return Run.open("run")


def test_every_kernel_of_the_wrapper_has_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = captured(tmp_path, monkeypatch)
    (graph,) = run.graphs
    code = graph.artifacts().code
    assert code is not None
    names = {kernel.name for kernel in code.kernels if kernel.kind == "triton"}
    (record,) = run.records
    results = {kernel.name: kernel for kernel in record.kernels}
    assert names
    assert names <= set(results)
    for name in names:
        kernel = results[name]
        assert kernel.graph == graph.name
        assert kernel.registers and 1 <= kernel.registers <= 255
        assert kernel.spills == 0
        assert kernel.shared_bytes is not None
        assert {"num_warps", "num_stages"} <= set(kernel.config)
        assert (len(kernel.tried) > 1) == (kernel.chosen_by == "measured")


def test_tuning_leaves_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = (("coordinate_descent_tuning", "true"),)
    run = captured(tmp_path, monkeypatch, mode="max-autotune-no-cudagraphs", config=config)
    (record,) = run.records
    tuned = [kernel for kernel in record.kernels if len(kernel.tried) > 1]
    assert tuned
    for kernel in tuned:
        times = [time for _, time in kernel.tried]
        assert times == sorted(times)
        assert 0 < times[0] < 100
        assert dict(kernel.config) in [dict(config) for config, _ in kernel.tried]
    choices = record.choices[0]
    assert choices.operation == "mm"
    assert choices.buffer is not None
    assert {"mm"} < {choice.name for choice in choices.tried}


def test_saved_inputs_are_replayed_on_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = captured(tmp_path, monkeypatch, save_inputs=1 << 26)
    (graph,) = run.graphs
    assert graph.folder is not None
    (saved,) = run.records[0].inputs
    assert saved.bytes == 2 * 512 * 512 * 4 + 512 * 8
    (result,) = replay_graphs(
        [GraphFiles.of_folder(graph.folder, graph.ident)], ReplayOptions(rounds=3)
    ).graphs
    assert result.failure is None
    assert "inputs: saved at capture, all" in result.notes
    assert {check.verdict for check in result.outputs} <= {"match", "compiled_closer"}


GPU_HOOKS = {
    "CachingAutotuner.precompile", "CachingAutotuner.bench", "CachingAutotuner.autotune_to_one_config",
    "CachingAutotuner.coordinate_descent_tuning", "AlgorithmSelectorCache.__call__",
    "AlgorithmSelectorCache.log_results",
}  # fmt: skip
"""Those that torch calls only where Triton's kernels are compiled and tuned."""


def on_the_gpu(program: str) -> str:
    """The program of faults with these hooks, tuning all it can: whole numbers, so that no order matters, and
    another size each time, so that no kernel is at hand already."""
    changes = {
        repr(sorted(HOOKS)): repr(sorted(GPU_HOOKS)),
        "torch.eye(8)": 'torch.eye(64 + len(name), device="cuda")',
        "(2, 1)": "(1,)",
        "force_disable_caches = True": "force_disable_caches = True\n"
        "    torch._inductor.config.max_autotune = torch._inductor.config.coordinate_descent_tuning = True",
        "torch.softmax(x @ y, 1)": "(x @ y).relu()",
    }
    for old, new in changes.items():
        assert old in program
        program = program.replace(old, new)
    return textwrap.dedent(program)


def test_faults_where_kernels_are_compiled_and_tuned_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hurt.py").write_text(on_the_gpu(FAULTS))
    capture_words = ["-m", "inspector.cli", "capture", "-q", "-o", "run", "--", sys.executable, "hurt.py"]
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    hurt = subprocess.run([sys.executable, *capture_words], capture_output=True, text=True)
    assert hurt.stdout.splitlines() == [f"{name} 1 True" for name in sorted(GPU_HOOKS)], hurt.stderr
    assert hurt.returncode == 1
    assert '"exit_code": 7' in Path("run/inspector.json").read_text()
    log = Path("run/logs/recorder.log").read_text()
    assert {line.split()[3] for line in log.splitlines() if " fault in " in line} == GPU_HOOKS
