"""The same operator is left to a library on both sides, which runs another, slower kernel in compiled code.

Looks at: profiles of both sides, block by block. What a library chooses follows from sizes, strides and
dtype, and of these Inductor changes strides: its layout optimisation makes convolutions channels-last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from inspector.analysis.call_nodes import CONVOLUTIONS
from inspector.analysis.two_sides import library_kernels, same_operator_other_kernel
from inspector.explain.block_words import both_times, kernel_text, label, short_kernel
from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage, lost_finding
from inspector.model.explain import Finding, Trial
from inspector.model.two_sides import Block, KernelTime
from inspector.units import duration, plural

FAST_PATHS = frozenset({"_transformer_encoder_layer_fwd", "_native_multi_head_attention"})
"""One operator for a layer, which chooses its attention by itself (torch/nn/modules/transformer.py)."""
_FAST_PATH = (
    "take the layers' own fast path away, so that Inductor compiles their parts with the usual attention: "
    "torch.backends.mha.set_fastpath_enabled(False)"
)


def find(case: Case) -> Iterable[Finding]:
    alike: dict[object, list[tuple[int, Block]]] = defaultdict(list)
    for number, block in case.slower:
        if same_operator_other_kernel(block):
            names = tuple(kernel.name for kernel in _longest(block))
            alike[block.operators, block.phase, names].append((number, block))
    for blocks in alike.values():
        blocks.sort(key=lambda item: -item[1].difference_ms)
        block = blocks[0][1]
        eager, compiled = _longest(block)
        more = sum(item.difference_ms for _, item in blocks[1:])
        others = f"; and {duration(more)} more in {plural(len(blocks) - 1, 'block')} like it" if more else ""
        convolution = case.gpu and set(block.operators) <= CONVOLUTIONS
        yield lost_finding(
            case,
            blocks,
            rule="library_kernel_differs",
            title=(
                f"{label(block)}: {both_times(block)}, by another library kernel: "
                f"{kernel_text(eager)}; {kernel_text(compiled)}{others}"
            ),
            advice=_FAST_PATH
            if FAST_PATHS.intersection(block.operators)
            else (
                "try it without Inductor's layout optimisation, which makes convolutions channels-last: "
                "TORCHINDUCTOR_LAYOUT_OPTIMIZATION=0"
                if convolution
                else f"compare what {short_kernel(compiled.name)} is given in output_code.py with eager's "
                "call: strides, sizes, dtype"
            ),
            trial=Trial(config=(("layout_optimization", False),)) if convolution else None,
        )


def _longest(block: Block) -> tuple[KernelTime, KernelTime]:
    """The library's kernel that takes longest, of either side."""
    return library_kernels(block.eager_kernels)[0], library_kernels(block.compiled_kernels)[0]


RULE = Rule("library_kernel_differs", Stage.LOST, find)
