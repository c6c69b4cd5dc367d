"""An operator that ATen has one kernel for runs in pieces, as generated code, and takes longer.

Looks at: operators that torch takes apart before Inductor sees them, or that Inductor lowers as loops over
windows or neighbours (torch/_decomp, torch/_inductor/decomposition.py, torch/_inductor/lowering.py): the
generated kernels that do their work, beside what ATen's own take (inspector.explain.whole_operators).
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.analysis.whole_operators import RANDOM
from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage
from inspector.explain.whole_operators import found_slower, slower_operators
from inspector.model.explain import Finding
from inspector.model.waste import WholeOperator

_OVERLOADS = {
    "grid_sample": "grid_sampler_2d",
    "fold": "col2im",
    "unfold": "im2col",
    "max_pool2d": "max_pool2d_with_indices",
    "avg_pool2d": "avg_pool2d",
    "cumsum": "cumsum",
}
"""Operators of the program that can be left to ATen by name (torch/_inductor/lowering.py: make_fallback).
Interpolation can't: AOT autograd takes it apart whatever the table says."""


def find(case: Case) -> Iterable[Finding]:
    """One finding for operators that share kernels."""
    for item in slower_operators(case):
        if not RANDOM.intersection(item.names):
            title = f"{', '.join(item.names)} in pieces, as generated code: {item.both_times}"
            yield found_slower(case, item, "decomposition_slower", title, _advice(item.operators[0]))


def _advice(item: WholeOperator) -> str:
    custom = f"call {item.operator} in a torch.library.custom_op (with register_fake)"
    lowered = item.expression.startswith("torch.ops") and not item.operator.startswith("upsample")
    overload = _OVERLOADS.get(item.operator, item.operator if lowered else "")
    if not overload:
        return f"leave it to ATen: {custom}, which the compiler does not look into"
    return (
        "leave it to ATen: from torch._inductor import decomposition, lowering; "
        f"whole = torch.ops.aten.{overload}.default; decomposition.decompositions.pop(whole, None); "
        "lowering.make_fallback(whole, override_decomp=True) before the first call, once with "
        f"TORCHINDUCTOR_FORCE_DISABLE_CACHES=1, as caches don't know of it; or {custom}"
    )


RULE = Rule("decomposition_slower", Stage.LOST, find, other_work=True)
