"""An operator that ATen has one kernel for runs in pieces, as generated code, and takes longer.

Looks at: operators that torch takes apart before Inductor sees them, or that Inductor lowers as loops over
windows or neighbours (torch/_decomp, torch/_inductor/decomposition.py, torch/_inductor/lowering.py): the
generated kernels that do their work, beside what ATen's own take (inspector.explain.whole_operators).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.analysis.whole_operators import RANDOM
from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage
from inspector.explain.whole_operators import found_slower, slower_operators
from inspector.model.explain import Finding, Trial
from inspector.model.waste import WholeOperator

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


def find(case: Case) -> Iterable[Finding]:
    """One finding for operators that share kernels."""
    for item in slower_operators(case):
        if not RANDOM.intersection(item.names):
            title = f"{', '.join(item.names)} in pieces, as generated code: {item.both_times}"
            whole = tuple(dict.fromkeys(f"aten.{in_aten(each)}" for each in item.operators))
            advice = _advice(item.operators[0])
            yield found_slower(case, item, "decomposition_slower", title, advice, Trial(whole=whole))


def in_aten(item: WholeOperator) -> str:
    """The operator's name in ATen: `upsample_bicubic2d` of an interpolation by its mode."""
    sizes = max((len(each.size) for each in item.inputs), default=4) - 2
    name = _ATEN.get(item.operator, item.operator)
    if item.operator == "interpolate":
        modes = (mode for mode in _MODE.findall(item.expression) if mode in _INTERPOLATIONS)
        name = _INTERPOLATIONS[next(modes, "nearest")]
        name = f"_{name}_aa" if "antialias = True" in item.expression else name
    return name.format(sizes)


def _advice(item: WholeOperator) -> str:
    custom = f"call {item.operator} in a torch.library.custom_op (with register_fake)"
    overload = in_aten(item)
    if "upsample" in overload:
        # AOT autograd takes it apart whatever the table says.
        return f"leave it to ATen: {custom}, which the compiler does not look into"
    return (
        "leave it to ATen: from torch._inductor import decomposition, lowering; "
        f"whole = torch.ops.aten.{overload}.default; decomposition.decompositions.pop(whole, None); "
        "lowering.make_fallback(whole, override_decomp=True) before the first call, once with "
        f"TORCHINDUCTOR_FORCE_DISABLE_CACHES=1, as caches don't know of it; or {custom}"
    )


RULE = Rule("decomposition_slower", Stage.LOST, find, other_work=True)
