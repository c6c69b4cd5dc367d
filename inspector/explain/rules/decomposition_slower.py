"""An operator that ATen has one kernel for runs in pieces, as generated code, and takes longer.

Looks at: operators that torch takes apart before Inductor sees them, or that Inductor lowers as loops over
windows or neighbours (torch/_decomp, torch/_inductor/decomposition.py, torch/_inductor/lowering.py): the
generated kernels that do their work, beside what ATen's own take (inspector.explain.whole_operators). And at
their gradients, which autograd makes of the pieces: writes into neighbours, beside eager's one kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from inspector.analysis.whole_operators import KERNELS, RANDOM, is_kernel_of
from inspector.explain.block_words import kernel_text
from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage, lost_claim, severity_of, source_evidence
from inspector.explain.whole_operators import LEAST_TIMES, found_slower, slower_operators
from inspector.model.explain import Evidence, Finding, Trial
from inspector.model.two_sides import Block, KernelTime
from inspector.model.waste import WholeOperator
from inspector.text import joined
from inspector.units import duration

_ATEN = {
    "grid_sample": "grid_sampler_{}d",
    "fold": "col2im",
    "unfold": "im2col",
    "max_pool1d": "max_pool2d_with_indices",
    "max_pool2d": "max_pool2d_with_indices",
    "max_pool3d": "max_pool3d_with_indices",
    "avg_pool1d": "avg_pool2d",
}
"""Operators of the program that have another name in ATen, `{}` for how many sizes they go over."""
_INTERPOLATIONS = {
    "linear": "upsample_linear1d",
    "bilinear": "upsample_bilinear2d",
    "trilinear": "upsample_trilinear3d",
    "bicubic": "upsample_bicubic2d",
    "nearest": "upsample_nearest{}d",
    "nearest-exact": "_upsample_nearest_exact{}d",
}
"""By the mode of ``torch.nn.functional.interpolate``."""
# 'bilinear', mode = 'bilinear'
_MODE = re.compile(r"'([a-z-]+)'")
# void at::native::(anonymous namespace)::upsample_bilinear2d_backward_nhwc_out_frame<float, float>(int, ...
_GRADIENT = re.compile(r"::(\w+?_backward)\w*<")
_OTHER_STRIDES = "aten.angle"
"""Its fake kernel has other strides than ATen's result where the input is not contiguous: a graph that has it
whole stops at its own check of strides (torch 2.13)."""
_PIECES = "index_put"
"""What autograd makes of the gathers that an operator was taken apart into, in names of generated kernels."""


def find(case: Case) -> Iterable[Finding]:
    """One finding for operators that share kernels."""
    for item in slower_operators(case):
        if not RANDOM.intersection(item.names):
            title = f"{', '.join(item.names)} in pieces, as generated code: {item.both_times}"
            whole = tuple(dict.fromkeys(f"aten.{in_aten(each)}" for each in item.operators))
            trial = None if _OTHER_STRIDES in whole else Trial(whole=whole)
            advice = _advice(item.operators)
            yield found_slower(case, item, "decomposition_slower", title, advice, trial)
    yield from _gradients(case)


class _Gradient(NamedTuple):
    """A block that lost by one: ATen's kernels for it in eager, and the generated ones."""

    number: int
    block: Block
    whole: tuple[KernelTime, ...]
    pieces: tuple[KernelTime, ...]

    @property
    def lost_ms(self) -> float:
        return min(_ms(self.pieces) - _ms(self.whole), self.block.difference_ms)


def _gradients(case: Case) -> Iterable[Finding]:
    """One finding for each of ATen's gradients, of all the blocks that lost by it."""
    lost: dict[tuple[str, str], list[_Gradient]] = {}
    for number, block in case.slower:
        name = next((name for name in block.operators if name in KERNELS and name not in RANDOM), None)
        if name is None or block.phase != "backward":
            continue
        whole = tuple(kernel for kernel in block.eager_kernels if _is_gradient(kernel, name))
        pieces = tuple(each for each in block.compiled_kernels if each.generated and _PIECES in each.name)
        if not whole or any(_is_gradient(kernel, name) for kernel in block.compiled_kernels):
            continue
        if _ms(pieces) >= LEAST_TIMES * _ms(whole):
            aten = _GRADIENT.search(whole[0].name)
            key = (name, aten[1] if aten is not None else "")
            lost.setdefault(key, []).append(_Gradient(number, block, whole, pieces))
    for (name, gradient), items in lost.items():
        cost = sum(item.lost_ms for item in items)
        whole = tuple(kernel for item in items for kernel in item.whole)
        pieces = tuple(kernel for item in items for kernel in item.pieces)
        kernels = "kernel" if len(pieces) == 1 else f"{len(pieces)} kernels"
        custom = f"call {name} in a torch.library.custom_op with register_fake and register_autograd"
        yield Finding(
            rule="decomposition_slower",
            severity=severity_of(case.share(cost)),
            title=f"{name}'s gradient in pieces, as generated code: ATen's own takes {duration(_ms(whole))} "
            f"in eager ({kernel_text(whole[0])}), the generated {kernels} {duration(_ms(pieces))}",
            graph=items[0].block.graph,
            cost_ms=cost,
            evidence=tuple(line for item in items[:2] for line in _evidence(case, item)),
            advice=f"leave it to ATen: {custom}" + (f" (torch.ops.aten.{gradient})" if gradient else ""),
            how="measured",
            share=case.share(cost),
            claims=tuple(lost_claim(case, item.number, item.block, item.lost_ms) for item in items),
        )


def _evidence(case: Case, item: _Gradient) -> Iterable[Evidence]:
    """The generated kernel that takes longest, and the user's line that it is of."""
    worst = max(item.pieces, key=lambda kernel: kernel.ms)
    for graph, launch in case.launches_of(item.block):
        if launch.name == worst.name:
            yield from (source_evidence(case, place) for place in launch.sources[:1])
            yield graph.launch_evidence(launch, kernel_text(worst))
            return


def _is_gradient(kernel: KernelTime, name: str) -> bool:
    return is_kernel_of(kernel, name) and "backward" in kernel.name.lower()


def _ms(kernels: Iterable[KernelTime]) -> float:
    return sum(kernel.ms for kernel in kernels)


def in_aten(item: WholeOperator) -> str:
    """The operator's name in ATen: `upsample_bicubic2d` of an interpolation by its mode."""
    sizes = max((len(each.size) for each in item.inputs), default=4) - 2
    name = _ATEN.get(item.operator, item.operator)
    if item.operator == "interpolate":
        modes = (mode for mode in _MODE.findall(item.expression) if mode in _INTERPOLATIONS)
        name = _INTERPOLATIONS[next(modes, "nearest")]
        name = f"_{name}_aa" if "antialias = True" in item.expression else name
    return name.format(sizes)


def _advice(items: Sequence[WholeOperator]) -> str:
    names = tuple(dict.fromkeys(item.operator for item in items))
    each = " each" if len(names) > 1 else ""
    custom = f"call {joined(names, len(names))}{each} in a torch.library.custom_op (with register_fake)"
    if len(names) > 1:
        return f"leave them to ATen: {custom}, which the compiler does not look into"
    overload = in_aten(items[0])
    if "upsample" in overload or f"aten.{overload}" == _OTHER_STRIDES:
        # AOT autograd takes an interpolation apart whatever the table says.
        return f"leave it to ATen: {custom}, which the compiler does not look into"
    return (
        "leave it to ATen: from torch._inductor import decomposition, lowering; "
        f"whole = torch.ops.aten.{overload}.default; decomposition.decompositions.pop(whole, None); "
        "lowering.make_fallback(whole, override_decomp=True) before the first call, once with "
        f"TORCHINDUCTOR_FORCE_DISABLE_CACHES=1, as caches don't know of it; or {custom}"
    )


RULE = Rule("decomposition_slower", Stage.LOST, find, other_work=True)
