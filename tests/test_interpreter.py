"""GPU kernels in Triton's interpreter on the CPU, as a replay runs them: verdicts, faults, failures."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree

import pytest
from interpreter_faults import PLANTINGS
from planting import Fault
from sharing import unpacked
from waiting import PATIENCE_S

from inspector.model.replay import GraphReplay, KernelReplay
from inspector.readers.run import Run
from inspector.replay.plan import graph_files
from inspector.replay.protocol import GraphFiles, ReplayOptions
from inspector.replay.spawn import replay_graph

OPTIONS = ReplayOptions(device="cpu", timeout_s=280, kernel_timeout_s=60)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("torch" not in sys.modules and find_spec("torch") is None, reason="needs torch"),
]


def copied(
    corpus: Path, run: str, graph: str, target: Path, change: Callable[[str], str] = lambda text: text
) -> GraphFiles:
    """A graph of a copy of an H200 run, its output_code.py changed."""
    copytree(corpus / "h200-torch2.11" / run, target)
    found = Run.open(target).graph(graph)
    assert found.folder is not None
    code = found.folder / "output_code.py"
    code.write_text(change(code.read_text()))
    return graph_files(found)


def interpreted(result: GraphReplay) -> list[KernelReplay]:
    return [kernel for kernel in result.kernels if kernel.method == "interpreter"]


def described(result: GraphReplay) -> str:
    lines = [f"{kernel.call} {kernel.name}: {kernel.verdict} {kernel.reason}" for kernel in result.kernels]
    return "\n".join([str(result.failure), *lines, result.log])


@pytest.mark.real_child
def test_kernels_of_a_gpu_are_checked_on_the_cpu(corpus: Path, tmp_path: Path) -> None:
    result = replay_graph(copied(corpus, "breaks", "model__7_backward", tmp_path / "run"), OPTIONS)
    assert result.failure is None, described(result)
    assert result.device == "interpreter"
    kernels = interpreted(result)
    assert [kernel.verdict for kernel in kernels] == ["match"] * 3, described(result)
    for kernel in kernels:
        assert kernel.time is None and kernel.programs == kernel.grid and kernel.grid
    # Two programs at least, or an error in the program's index would not show.
    assert max(kernel.grid or 0 for kernel in kernels) >= 2
    libraries = [kernel for kernel in result.kernels if kernel.name.startswith("extern")]
    assert {kernel.verdict for kernel in libraries} == {"unverifiable"}
    assert "which only a GPU runs" in libraries[0].reason
    assert {check.verdict for check in result.outputs} == {"match"}
    assert result.eager is None and result.compiled is None


def test_a_part_of_a_grid_is_compared_where_it_wrote(corpus: Path, tmp_path: Path) -> None:
    files = copied(corpus, "addrelumul", "model__0_inference", tmp_path / "run")
    # A tenth of its ten million elements has programs enough.
    for path in files.output_code.parent.iterdir():
        path.write_text(path.read_text().replace("10000000", "1000000"))
    result = replay_graph(
        graph_files(Run.open(tmp_path / "run").graphs[0]), replace(OPTIONS, interpreter_s=0.001)
    )
    (kernel,) = interpreted(result)
    assert kernel.verdict == "match", described(result)
    assert kernel.programs is not None and kernel.grid is not None and 2 <= kernel.programs < kernel.grid
    assert kernel.reason == f"checked where {kernel.programs} of {kernel.grid} programs wrote"
    # What the other programs would have written was filled in.
    assert [check.verdict for check in result.outputs] == ["match"]


def test_foreach_kernels_that_write_in_place(corpus: Path, tmp_path: Path) -> None:
    archive = Path(__file__).parent / "data" / "extra" / "adamw-h200-torch2.11.tar.xz"
    unpacked(archive, tmp_path)
    run = Run.open(tmp_path / "adamw")
    result = replay_graph(graph_files(run.graphs[0]), OPTIONS)
    assert result.failure is None, described(result)
    found = [kernel.verdict for kernel in interpreted(result)]
    assert len(found) == 2 and set(found) <= {"match", "compiled_closer", "eager_closer"}, described(result)


@pytest.mark.parametrize("name", PLANTINGS)
def test_planted_faults_are_found_and_no_other_kernel_is_blamed(
    name: str, corpus: Path, tmp_path: Path
) -> None:
    planting = PLANTINGS[name]

    def plant(text: str) -> str:
        for fault in planting.faults:
            text = fault.plant(text)
        return text

    files = copied(corpus, planting.run, planting.graph, tmp_path / "run", plant)
    text = files.output_code.read_text()
    result = replay_graph(files, OPTIONS)
    assert result.failure is None, described(result)
    guilty = {fault.name(text) for fault in planting.faults}
    for kernel in interpreted(result):
        if kernel.name in guilty:
            assert kernel.verdict == "mismatch", described(result)
        else:
            assert kernel.verdict == "match", described(result)
    assert {kernel.name for kernel in interpreted(result)} >= guilty
    if name == "bounds":
        assert "past the end of in_out_ptr0" in described(result)


def test_over_ten_kinds_of_fault_are_planted() -> None:
    assert len({fault.kind for planting in PLANTINGS.values() for fault in planting.faults}) >= 15


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("libdevice.exp(tmp13)", "libdevice.jn(tmp13)", "libdevice.jn has no stand-in on the CPU"),
        (
            "    tmp2 = tmp1.to(tl.float32)",
            "    while True:\n        pass\n    tmp2 = tmp1.to(tl.float32)",
            "was stopped after 7.2 s in program (0, 0, 0)",
        ),
        ("libdevice.exp(tmp13)", "libdevice.exp(undefined)", "name 'undefined' is not defined, at `tmp14 ="),
    ],
    ids=["stand-in", "hang", "error"],
)
def test_a_kernel_that_cannot_run_costs_its_own_verdict_only(
    old: str, new: str, reason: str, corpus: Path, tmp_path: Path
) -> None:
    fault = Fault("", "_1", old, new)
    files = copied(corpus, "breaks", "model__7_backward", tmp_path / "run", fault.plant)
    result = replay_graph(files, replace(OPTIONS, kernel_timeout_s=8))
    assert result.failure is None, described(result)
    verdicts = {kernel.name.rpartition("_")[2]: kernel for kernel in interpreted(result)}
    assert verdicts["1"].verdict == "unverifiable" and reason in verdicts["1"].reason, described(result)
    assert verdicts["0"].verdict == "match" and verdicts["2"].verdict == "match", described(result)


def passed_grid(text: str) -> str:
    """The wrapper as torch up to 2.6 wrote it: the launch says which grid."""
    text = text.replace("'grid_type': 'Grid1D', ", "")
    text = text.replace(
        "import start_graph, end_graph", "import grid, split_scan_grid, start_graph, end_graph"
    )
    return text.replace("100, 100, stream=stream0)", "100, 100, grid=grid(100), stream=stream0)")


def user_kernel(text: str) -> str:
    """The wrapper as if the user had written the kernel, with two configurations of its own."""
    start = text.index("@triton_heuristics.persistent_reduction(")
    grids = [
        {"config": {"XBLOCK": block}, "python": [f"-(xnumel // -{block})", "1", "1"]} for block in (32, 64)
    ]
    meta = {"grid_type": "PrecomputedGrid", "precomputed_grids": grids}
    configs = [{"num_warps": 4, "num_stages": 3, "XBLOCK": block} for block in (32, 64)]
    decorator = (
        f"@triton_heuristics.user_autotune(configs={configs}, inductor_meta={meta}, triton_meta={{}})\n"
    )
    return text[:start] + decorator + text[text.index("@triton.jit", start) :]


@pytest.mark.parametrize(
    ("change", "programs", "verdict"),
    # What the program's own kernel stands for, only the FX node that calls it would say.
    [(passed_grid, 2, "match"), (user_kernel, 4, "unverifiable")],
)
def test_other_ways_to_launch(
    change: Callable[[str], str], programs: int, verdict: str, corpus: Path, tmp_path: Path
) -> None:
    files = copied(corpus, "softmax", "model__0_inference", tmp_path / "run", change)
    result = replay_graph(files, OPTIONS)
    assert result.failure is None, described(result)
    (kernel,) = interpreted(result)
    assert (kernel.verdict, kernel.programs, kernel.grid) == (verdict, programs, programs), described(result)


_GRADIENTS = """
import torch
from inspector.replay.worker.interpreter.module import prepare_torch
prepare_torch()
torch.manual_seed(0)
ops = torch.ops.aten
query, key, value = (torch.randn(2, 4, 16, 8) for _ in range(3))
bias, grad = torch.randn(2, 4, 16, 16), torch.randn(2, 4, 16, 8)
leaves = [tensor.clone().requires_grad_() for tensor in (query, key, value, bias)]
out = torch.nn.functional.scaled_dot_product_attention(*leaves[:3], leaves[3])
plain = torch.nn.functional.scaled_dot_product_attention(*leaves[:3])
wanted, without = torch.autograd.grad(out, leaves, grad), torch.autograd.grad(plain, leaves[:3], grad)
none, seed = torch.empty(0, dtype=torch.int32), torch.zeros((), dtype=torch.int64)
torch.set_grad_enabled(False)
flash = ops._scaled_dot_product_flash_attention_backward(
    grad, query, key, value, out, out, none, none, 16, 16, 0.0, False, seed, seed, scale=None)
# Dropout is left out: what it leaves is random, and compared with nothing.
cudnn = ops._scaled_dot_product_cudnn_attention_backward(
    grad, query, key, value, out, out, seed, seed, bias, none, none, 16, 16, 0.1, False)
efficient = ops._scaled_dot_product_efficient_attention_backward(
    grad, query, key, value, bias, out, out, seed, seed, 0.0, [True] * 4)
for ours, theirs in zip([*flash, *cudnn, *efficient], [*without, *wanted[:3], *wanted], strict=True):
    torch.testing.assert_close(ours, theirs)
"""


def test_gradients_of_attention_that_only_a_gpu_has() -> None:
    """In a process of its own, whose torch it changes."""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", _GRADIENTS], check=True, env=environment, timeout=PATIENCE_S)


_LOGIC = """
import numpy as np
import triton.language as tl
from inspector.replay.worker.interpreter import operators
operators.install()
from torch._inductor.runtime.triton_helpers import maximum_with_index
nan = float("nan")
left, right = np.array([nan, 1, nan, 2], np.float32), np.array([1, nan, nan, 2], np.float32)
_, index = operators._combined(
    maximum_with_index, [left, np.arange(4)], [right, np.arange(4, 8)], [tl.float32, tl.int64])
assert index.tolist() == [0, 5, 2, 3], index
patterns = [True, True, False, False], [True, False] * 2
both = [operators._tensor(np.array(bits), tl.int1) for bits in patterns]
for word, expected in (("and", [True, False, False, False]), ("or", [True, True, True, False])):
    result = operators._logic(word, lambda: both[0], lambda: both[1])
    assert result.handle.data.tolist() == expected, (word, result.handle.data)
assert operators._logic("or", lambda: 3, lambda: 1 / 0) == 3 and operators._logic("not", lambda: 0) is True
"""


def test_not_and_or_of_blocks_are_element_by_element() -> None:
    """A NaN is the largest of all for argmax wherever it stands: `a_isnan & (not b_isnan)`."""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", _LOGIC], check=True, env=environment, timeout=PATIENCE_S)
