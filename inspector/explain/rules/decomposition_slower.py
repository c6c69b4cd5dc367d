"""An operator that ATen has one kernel for runs in pieces, as generated code, and takes longer.

Looks at: blocks of both profiles in which compiled loses, whose program calls an operator that torch takes
apart before Inductor sees it, or that Inductor lowers as loops over windows or neighbours (torch/_decomp,
torch/_inductor/decomposition.py, torch/_inductor/lowering.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.explain.block_words import both_times, kernel_text, label
from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage, lost_finding
from inspector.model.explain import Finding
from inspector.model.two_sides import Block, KernelTime

from .random_numbers import draws

_TAKEN_APART: dict[str, tuple[str, ...]] = {
    "interpolate": ("upsample", "_upsample"),
    "upsample": ("upsample", "_upsample"),
    "grid_sample": ("grid_sampl",),
    "fold": ("col2im",),
    "unfold": ("im2col",),
    "max_pool1d": ("max_pool",),
    "max_pool2d": ("max_pool",),
    "max_pool3d": ("max_pool",),
    "avg_pool1d": ("avg_pool",),
    "avg_pool2d": ("avg_pool",),
    "avg_pool3d": ("avg_pool",),
    "adaptive_avg_pool2d": ("adaptive_avg_pool",),
    "adaptive_max_pool2d": ("adaptive_max_pool",),
    "pad": ("reflection_pad", "replication_pad"),
    "cumsum": ("cumsum",),
    "logcumsumexp": ("logcumsumexp",),
}
"""The program's operator to what the names of ATen's kernels for it have in them."""
LEAST_OF_BLOCK = 0.3
"""Of what eager takes for the block: else another operator of it may be what is slow."""


def find(case: Case) -> Iterable[Finding]:
    drawing = {(graph.name, launch.call.index) for graph, launch in case.launches() if draws(launch)}
    for number, block in case.slower:
        known = _in_eager(block)
        generated = next((kernel for kernel in block.compiled_kernels if kernel.generated), None)
        if known is None or generated is None or drawing.intersection(block.launches):
            continue
        operator, kernel = known
        yield lost_finding(
            case,
            number,
            block,
            rule="decomposition_slower",
            title=(
                f"{label(block)}: {both_times(block)}: ATen has a kernel of its own for {operator}, "
                f"{kernel_text(kernel)}, and generated code takes longer"
            ),
            advice=(
                f"keep {operator} whole: call it in a torch.library.custom_op (with register_fake), which "
                "the compiler leaves to ATen"
            ),
        )


def _in_eager(block: Block) -> tuple[str, KernelTime] | None:
    """The operator of the block that eager spends much of its time in, with its kernel; None where there is
    none of these."""
    for operator in block.operators:
        for kernel in block.eager_kernels:
            ours = any(part in kernel.name for part in _TAKEN_APART.get(operator, ()))
            if ours and kernel.ms >= LEAST_OF_BLOCK * (block.eager_ms or 0.0):
                return operator, kernel
    return None


RULE = Rule("decomposition_slower", Stage.LOST, find)
