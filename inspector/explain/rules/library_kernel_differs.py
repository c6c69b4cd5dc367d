"""The same operator is left to a library on both sides, which runs another, slower kernel in compiled code.

Looks at: profiles of both sides, block by block. What a library chooses follows from sizes, strides and
dtype, and of these Inductor changes strides: its layout optimisation makes convolutions channels-last.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.analysis.call_nodes import CONVOLUTIONS
from inspector.analysis.two_sides import same_operator_other_kernel
from inspector.explain.block_words import both_times, kernel_text, label, short_kernel
from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage, lost_finding
from inspector.model.explain import Finding, Trial

FAST_PATHS = frozenset({"_transformer_encoder_layer_fwd", "_native_multi_head_attention"})
"""One operator for a layer, which chooses its attention by itself (torch/nn/modules/transformer.py)."""
_FAST_PATH = (
    "take the layers' own fast path away, so that Inductor compiles their parts with the usual attention: "
    "torch.backends.mha.set_fastpath_enabled(False)"
)


def find(case: Case) -> Iterable[Finding]:
    for number, block in case.slower:
        if not same_operator_other_kernel(block):
            continue
        eager = next(kernel for kernel in block.eager_kernels if not kernel.generated)
        compiled = next(kernel for kernel in block.compiled_kernels if not kernel.generated)
        convolution = case.gpu and set(block.operators) <= CONVOLUTIONS
        yield lost_finding(
            case,
            number,
            block,
            rule="library_kernel_differs",
            title=(
                f"{label(block)}: {both_times(block)}, by another library kernel: "
                f"{kernel_text(eager)}; {kernel_text(compiled)}"
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


RULE = Rule("library_kernel_differs", Stage.LOST, find)
