"""What of a call can't become part of a CUDA graph: what torch cuts around, and what ends in an error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from inspector.analysis.profile_work import HOOK
from inspector.model.fx import FxNode

from .case import Case, GraphCase
from .transfers import transfers

# torch/_inductor/utils.py: FORBIDDEN_CUDAGRAPH_OPS; what moves between devices is known by its device.
_CUT_AROUND = re.compile(
    r"_fused_moving_avg_obs_fq_helper|dense_to_jagged|jagged_to_padded_dense|run_and_save_rng_state|"
    r"run_with_rng_state|_local_scalar_dense|_assert_scalar|\bnonzero\b"
)
# The operators of ATen in which the host waits there: sizes that depend on data, numbers read, copies made.
_WAITS_THERE = re.compile(
    r"item|_local_scalar_dense|copy_|_to_copy|to|nonzero|masked_select|index|bincount|repeat_interleave|_?unique\w*"
)
# aten/src/ATen/native/BatchLinearAlgebra.cpp: _linalg_check_errors reads on the host whether these failed.
_READ_ON_HOST = re.compile(r"\baten\.(_linalg_eigh|_linalg_svd|linalg_eig)\b")
# aten/src/ATen/native/cuda/linalg/BatchLinearAlgebra.cpp: cuSOLVER solves for one matrix, MAGMA for several.
_MAGMA = re.compile(r"\baten\.cholesky_solve\b")
_MANY = 2
"""Dimensions of one matrix."""
_IN_PARTS = re.compile(r"(?:2\.(?:9|\d\d)|[3-9])\b")
"""The torch that cuts a graph in parts (`graph_partition`); before 2.9 none of such a graph was recorded."""


_BY_NAME = re.compile(r"(?:2\.(?:1[1-9]|[2-9]\d)|[3-9])\b")
"""The torch in which operators that a program names were seen to be cut around, as others are."""


_SHARDS = re.compile(r"\bfully_shard\(")


def fully_sharded(case: Case) -> bool:
    """Whether FSDP2 gathers weights for each step: its hooks are in the profile, or the program calls it."""
    blocks = case.sides.joined.blocks if case.sides is not None else ()
    if any(name.startswith(HOOK) for block in blocks for name in block.operators):
        return True
    return any(_SHARDS.search(line) for program in case.programs for line in program.lines)


def graphs_of_call(case: Case, left_out: Sequence[str] = ()) -> float:
    """How many CUDA graphs one call would be, cut around the operators `left_out` too."""
    cut = sum(graph.runs for graph, _ in _cut_around(case))
    out = (
        graph.runs
        for graph, launch in case.launches()
        if any(f".{name}." in launch.name for name in left_out)
    )
    return max(sum(graph.runs for graph in case.graphs) + cut + sum(out), 1.0)


def leave_out(case: Case, operators: Sequence[str]) -> str:
    """The line that makes torch cut around these operators of ATen; empty where its version has none."""
    if not _BY_NAME.match(case.facts.torch_version or ""):
        return ""
    names = ", ".join(f'"aten::{name}"' for name in operators)
    return f"torch._inductor.config.custom_should_partition_ops = [{names}]"


def unrecordable(case: Case) -> tuple[str, ...]:
    """Operators in its graphs with which torch records no CUDA graph: those that waited for the device in the
    profile or ran MAGMA's kernels, as MAGMA does; without a profile those that are known to."""
    names = []
    if case.sides is not None and case.sides.joined.compiled is not None:
        names += [name for name in case.sides.joined.waiting if not _WAITS_THERE.fullmatch(name)]
    else:
        names += [_name(node) for _, node in _calls(case, _READ_ON_HOST)]
        solved = [node for _, node in _calls(case, _MAGMA)]
        names += [_name(node) for node in solved if node.meta is not None and len(node.meta.shape) > _MANY]
    if not _IN_PARTS.match(case.facts.torch_version or "2.9"):
        names += [_name(node) for _, node in _cut_around(case)]
    return tuple(dict.fromkeys(names))


def _cut_around(case: Case) -> Iterator[tuple[GraphCase, FxNode]]:
    yield from ((item.graph, item.node) for item in transfers(case))
    yield from _calls(case, _CUT_AROUND)


def _calls(case: Case, of: re.Pattern[str]) -> Iterator[tuple[GraphCase, FxNode]]:
    for graph in case.graphs:
        fx = graph.artifacts.fx_after
        yield from ((graph, node) for node in (fx.nodes if fx is not None else ()) if of.search(node.target))


def _name(node: FxNode) -> str:
    """`cholesky_solve` of ``torch.ops.aten.cholesky_solve.default``."""
    return node.target.removeprefix("torch.ops.").split(".")[1]
