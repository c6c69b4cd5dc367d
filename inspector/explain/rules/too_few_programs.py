"""A kernel of fewer programs than the GPU has multiprocessors: the others idle while it runs.

Looks at: profiled launches, their grids and the device's multiprocessors. Inductor splits long rows of a
reduction, but not those of an argmax or argmin (torch/_inductor/ir.py: Reduction.num_splits), and no scan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from inspector.analysis.call_nodes import CONVOLUTIONS
from inspector.analysis.dataflow import operator
from inspector.analysis.two_sides import is_communication
from inspector.analysis.unread import REDUCTIONS
from inspector.explain.block_words import kernel_text, label, short_kernel
from inspector.explain.case import Case
from inspector.explain.claims import on_block
from inspector.explain.estimate import GPU_KERNEL_MS
from inspector.explain.in_force import cudnn_benchmark
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.model.explain import Evidence, Finding, Trial
from inspector.model.fx import FxNode
from inspector.model.source import numel
from inspector.model.two_sides import Block, KernelTime
from inspector.units import duration, plural

OVER_SHARE = 3
"""One multiprocessor alone gets so many times its share of the memory's rate: 64 bytes a clock from the L2
cache (112 GB/s on an H200, whose 132 share 4.8 TB/s). What more programs win at least is beyond that."""

_EXTREMES = frozenset({"argmax", "argmin"})
_PLACED = (".max.dim", ".min.dim")
"""Operators that have one of these for a half."""
_REDUCES = REDUCTIONS | {
    "cumprod", "cumsum", "linalg_vector_norm", "logcumsumexp", "max", "median", "min", "std_mean", "var_mean",
}  # fmt: skip
"""Reductions, as FX graphs name them, and scans."""
_REDUCTIONS = ("triton_red_", "triton_per_")
_COOPERATIVE = Trial(config=(("triton.cooperative_reductions", True),))


def find(case: Case) -> Iterable[Finding]:
    """One finding for each block, of its kernel that leaves most of the device idle."""
    sides = case.sides
    available = sides.joined.multiprocessors if sides is not None else None
    if sides is None or not available:
        return
    for number, block in enumerate(sides.joined.blocks):
        # Ranks exchange with few programs, and wait.
        kernels = [kernel for kernel in block.compiled_kernels if not is_communication(kernel.name)]
        costly = [(idle, kernel) for kernel in kernels if (idle := _idle(kernel, available))]
        if block.place == "outside" or not costly:
            continue
        (least, most), kernel = max(costly, key=lambda item: item[0])
        severity = severity_of(case.share(least))
        if severity == "low":
            # Any program has some: below what two runs differ by, they are not worth a line.
            continue
        reduced = _reduced(case, block, kernel)
        lines = tuple(dict.fromkeys((*(node.source for node in reduced if node.source), *block.lines)))
        own = f" for {operator(reduced[0].target)} in line {lines[0].line}" if reduced and lines else ""
        yield Finding(
            rule="too_few_programs",
            severity=severity,
            title=(
                f"{label(block)}: {duration(kernel.taken_ms)}{own} in {short_kernel(kernel.name)}, whose "
                f"{plural(kernel.programs or 0, 'program')} can't fill {available} multiprocessors"
                f"{_in_eager(block, kernel)}"
            ),
            graph=block.graph,
            cost_ms=most,
            evidence=(
                *(source_evidence(case, line) for line in lines[:2]),
                Evidence(sides.sources[-1] if sides.sources else case.facts.root, None, kernel_text(kernel)),
            ),
            advice=_advice(case, block, kernel, reduced),
            how="measured",
            share=case.share(most),
            trial=_COOPERATIVE if kernel.name.startswith(_REDUCTIONS) else None,
            claims=(on_block(number, (least, most), "profiled", "least"),),
        )


def _idle(kernel: KernelTime, available: int) -> tuple[float, float] | None:
    """Milliseconds a call, at least and at most, that the kernel takes longer than with programs enough; None
    where it has enough, or is no longer than any launch. What runs at once fills the device together."""
    if not kernel.programs or not kernel.calls:
        return None
    beyond = kernel.taken_ms - GPU_KERNEL_MS * kernel.calls
    filled = kernel.programs / available * max(kernel.ms / (kernel.taken_ms or kernel.ms or 1.0), 1.0)
    if beyond <= 0 or OVER_SHARE * filled >= 1:
        return None
    return beyond * (1 - OVER_SHARE * filled), beyond * (1 - filled)


def _reduced(case: Case, block: Block, kernel: KernelTime) -> list[FxNode]:
    """The reductions and scans that a generated kernel is of, that of most elements first."""
    found = []
    for graph, launch in case.launches_of(block):
        if launch.name == kernel.name:
            nodes = graph.artifacts.fx_nodes
            of = (nodes[name] for name in launch.fx if name in nodes)
            found += [(_given(node, nodes), node) for node in of if operator(node.target) in _REDUCES]
    return [node for _, node in sorted(found, key=lambda item: -item[0])]


def _given(node: FxNode, nodes: Mapping[str, FxNode]) -> int:
    """Elements of its largest input, as far as they are known."""
    metas = (nodes[name].meta for name in node.inputs if name in nodes)
    return max((numel(meta.shape) or 0 for meta in metas if meta is not None), default=0)


def _in_eager(block: Block, kernel: KernelTime) -> str:
    """What eager launches for the same, where that has more programs."""
    most = max((other.programs or 0 for other in block.eager_kernels), default=0)
    return f"; eager launches {most:,}" if kernel.programs and most > kernel.programs else ""


def _advice(case: Case, block: Block, kernel: KernelTime, reduced: Sequence[FxNode]) -> str:
    if block.operators and set(block.operators) <= CONVOLUTIONS and not cudnn_benchmark(case):
        return (
            "let cuDNN measure its algorithms: torch.backends.cudnn.benchmark = True; or try another dtype "
            "or memory format for this convolution"
        )
    if block.phase == "backward" and kernel.name.startswith(_REDUCTIONS):
        return (
            "the backward pass sums over the whole of a small parameter's gradient: try "
            "triton.cooperative_reductions=True, or sum in two steps in a custom backward"
        )
    if _EXTREMES.intersection(block.operators) or any(node.target.endswith(_PLACED) for node in reduced[:1]):
        return (
            "Inductor does not split the rows of a maximum whose place is asked for: reduce in two steps, "
            "x.view(rows, parts, -1).max(-1) and then over the parts"
        )
    if kernel.name.startswith(_REDUCTIONS):
        return (
            "split the rows: reduce x.view(rows, parts, -1) over the last dimension, then over the parts; or "
            "more rows in a call"
        )
    return (
        "give the call more rows (a larger batch), or the operator's work in parts that can run side by side"
    )


RULE = Rule("too_few_programs", Stage.CODE, find)
