"""Torch's reasons for not fusing: each phrase has its category, and each category says what to do."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import get_args

import pytest

from inspector.analysis.reasons import _RULES, CATEGORIES, around_library, classify
from inspector.model.decision import Category

PHRASES = {
    # torch 2.13, scheduler.py
    "grouped node must not be fused with other nodes": "disabled",
    "node1 is nop": "extern_kernel",
    "node1 is extern but not a triton kernel": "extern_kernel",
    "node1's triton kernel doesn't support epilogue fusion": "template_rule",
    "node1 is extern but node2 is not SchedulerNode": "template_rule",
    "node1 is extern but node2.node.data is not Pointwise": "template_rule",
    "epilogue reads from buffers other than the mutated output": "template_rule",
    "node1 and node2 uses different buf layouts": "index_mismatch",
    "node2 is extern or nop": "extern_kernel",
    "node1 must go before node2": "order",
    "prologue fusion turned off": "disabled",
    "prologue fusion only supported for pointwise nodes": "template_rule",
    "template has no allowed prologue inputs": "template_rule",
    "prologue fusion not implemented for kernel for these inputs": "template_rule",
    "template prologue can only fuse nodes with a single use into template": "template_rule",
    "prologue fusion will not increase amount of bytes read in kernel": "template_rule",
    "prologue fusion that must be upcast to fp32 not profitable for low precision templates": "template_rule",
    "template epilogue not satisfied": "template_rule",
    "multi-output template epilogue requires ComputedBuffer": "template_rule",
    "fusion for buffer explicit disabled": "disabled",
    "device mismatch (cpu vs cuda:0)": "device",
    "memory deps did not match": "index_mismatch",
    "intermediate nodes between node1 & node2": "cycle",
    "will create cycle": "cycle",
    "register spilling of the fused kernel": "measured_slower",
    "foreach do not have same length": "iteration_ranges",
    "candidate producer is a reduction, foreach ops cannot be fused with reductions": "template_rule",
    "candidate producer is not dep of any foreach consumer": "no_shared_data",
    # choices.py
    "no shared data": "no_shared_data",
    "no shared data due to indexing mismatch": "index_mismatch",
    "exceeds max fusion": "limit",
    "Fusion will increase peak memory": "too_far",
    "fusion_prevent_too_many_reads_and_writes": "limit",
    "score_fusion_memory_threshold": "below_threshold",
    "Nodes are too far away. Fusing them may increase peak memory.": "too_far",
    # codegen/simd.py
    "Split scan cannot fuse with reductions": "template_rule",
    "numel/rnumel mismatch (reduce) (s50, 1024), (1, 4*s50)": "iteration_ranges",
    "numel/rnumel mismatch (non-reduce) (8, 16), (1, 1)": "iteration_ranges",
    "numel/rnumel mismatch prologue mismatch (8, 16), (1, 1)": "template_rule",
    "invalid loop order and tiling for native matmul": "index_mismatch",
    "tiling mismatch ([64, 64], [4096], [64, 64])": "index_mismatch",
    "nodes numel/rnumel incompatibility": "iteration_ranges",
    "invalid tiling for reduction": "index_mismatch",
    "nodes numel incompatibility": "iteration_ranges",
    # codegen/cutlass/scheduling.py
    "buf3's size: [8, 8] differs from buf1's size: [8, 16]": "template_rule",
    "op3 has aliasing or mutation": "template_rule",
    "op3 is a reduction which is not yet supported by EVT": "template_rule",
    "cutlass epilogue fusion is not enabled": "disabled",
    # torch 2.4 and 2.15
    "node1 is extern or nop": "extern_kernel",
    "memory-timeline fusion rejected: estimated peak delta 4096 bytes": "too_far",
    "cannot fuse (benchmark): fusing {'buf2'} with {'buf3'} cause 1.200x slowdown": "measured_slower",
    "a phrase of the year 2031": "other",
}


@pytest.mark.parametrize(("text", "category"), PHRASES.items())
def test_each_phrase_has_its_category(text: str, category: str) -> None:
    assert classify(text).category == category


def test_every_category_explains_itself() -> None:
    assert set(CATEGORIES) == set(get_args(Category))
    for name, info in CATEGORIES.items():
        assert all((info.title, info.meaning, info.advice)), name
        assert info.meaning.endswith(".") and info.advice.endswith("."), name


def torch_folder() -> Path:
    """Where torch is installed; finding it does not import it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        pytest.skip("torch is not installed")
    return Path(spec.origin).parent / "_inductor"


def test_no_reason_of_the_installed_torch_is_unknown() -> None:
    """Every ``why("...")`` and ``WhyNoFuse(..)("...")`` in the sources."""
    found = set()
    folder = torch_folder()
    for path in [folder / "scheduler.py", folder / "choices.py", *sorted((folder / "codegen").rglob("*.py"))]:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = node.func.func if isinstance(node.func, ast.Call) else node.func
            if isinstance(called, ast.Name) and called.id in ("why", "WhyNoFuse"):
                text = node.args[0]
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    found.add(text.value)
                elif isinstance(text, ast.JoinedStr):
                    pieces = [v.value if isinstance(v, ast.Constant) else "buf0" for v in text.values]
                    found.add("".join(map(str, pieces)))
    assert len(found) > 40, "the sources are where they are looked for"
    assert [text for text in sorted(found) if classify(text).category == "other"] == []


@pytest.mark.slow
def test_settings_named_in_advice_exist() -> None:
    if tuple(map(int, metadata.version("torch").split(".")[:2])) < (2, 13):
        pytest.skip("some of them are newer than this torch")
    texts = [info.advice + " " + info.meaning for info in CATEGORIES.values()]
    texts += [reason.advice + " " + reason.plain for _, reason in _RULES]
    texts += [around_library("extern_kernels.mm", "cpu")]
    words = set(re.findall(r"\b(?:triton|cpp|cutlass)\.[a-z_]+\b|\b[a-z]+(?:_[a-z]+)+\b", " ".join(texts)))
    names = sorted(word for word in words if word not in {"are_long_distant_nodes"})
    assert {"loop_ordering_after_fusion", "cpp.max_horizontal_fusion_size", "max_autotune_gemm"} <= set(names)
    check = (
        "import sys, functools, torch._inductor.config as c\n"
        "for n in sys.argv[1:]:\n"
        "    try: functools.reduce(getattr, n.split('.'), c)\n"
        "    except AttributeError: print(n)\n"
    )
    result = subprocess.run([sys.executable, "-c", check, *names], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_what_helps_beside_a_library_call_is_about_that_call() -> None:
    product, convolution = ("extern_kernels.addmm", "extern_kernels.convolution")
    assert "max-autotune" in around_library(product, "cpu")
    assert "max-autotune" in around_library(convolution, "cuda:0")
    attention = around_library("torch.ops.aten._scaled_dot_product_efficient_attention.default", "cuda:0")
    assert "flex_attention" in attention and "max-autotune" not in attention
    for kernel in ("torch.ops.aten._fft_r2c.default", "torch.ops.own.gelu.default", "a library call"):
        assert around_library(kernel, "cuda:0") == ""
    assert around_library(convolution, "cpu") == ""
