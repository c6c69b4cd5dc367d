"""Which operators of ATen's a part of a program could be left to, as eager does."""

from __future__ import annotations

import re

from inspector.model.two_sides import Block

from .case import Case, GraphCase, Launch
from .launches import library_call

# torch.ops.aten.cumsum.default
_ATEN = re.compile(r"torch\.ops\.(aten\.\w+)")
_CHEAP = re.compile(
    r"aten\.(?:add|sub|rsub|mul|div|neg|eq|ne|lt|le|gt|ge|where|relu|threshold_backward|logical_\w+|"
    r"bitwise_\w+|fill|zero|full\w*|zeros\w*|ones\w*|empty\w*|arange|linspace|scalar_tensor|_to_copy|copy|clone|expand|view\w*|"
    r"_?unsafe_view|reshape|permute|t|transpose|unsqueeze|squeeze|select|slice|split\w*|unbind|alias|detach|"
    r"as_strided|diagonal|convolution\w*|mm|addmm|bmm|baddbmm)"
)
"""Views, what makes constants, arithmetic that a loop does as fast as it loads, and what is a library's."""


_POINTWISE = re.compile(
    r"aten\.(?:exp\w*|log\w*|pow|r?sqrt|reciprocal|square|tanh|sigmoid|sin|cos|erf\w*|silu|gelu|elu|abs|sign|clamp\w*|"
    r"floor|ceil|round|trunc|maximum|minimum|remainder|fmod|\w*_backward)"
)
"""Of the others, what does an element at a time: less often what is slow."""
_ATENS = "aten::"
_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "mv", "addmv"})
"""Of a library's, what Inductor takes apart where a factor is a vector (torch/_inductor/decomposition.py)."""
_RANDOM = re.compile(r"(?:uniform|normal|bernoulli|random|exponential|geometric|cauchy|log_normal)")
"""Which eager fills tensors with: Inductor draws such numbers itself, or leaves them to ATen by a setting."""
_LEAST_OF_EAGER = 0.1
"""Of what eager takes in a block: less could win no more than that."""


def kept_whole(graph: GraphCase, launch: Launch) -> tuple[str, ...]:
    """Operators of ATen (``aten.cumsum``) that a generated kernel does the work of and that could be left to
    ATen, those that are more than a value for each element first. None of other launches, nor of what is as
    fast as it loads. C++ kernels don't name them: there they are those of the lowered graph."""
    if launch.role not in ("generated", "copy"):
        return ()
    origin = launch.call.origin or (launch.kernel.origin if launch.kernel is not None else None)
    fx = graph.artifacts.fx_after
    targets = {node.name: node.target for node in fx.nodes} if fx is not None else {}
    matches = (_ATEN.match(targets.get(name, "")) for name in launch.fx)
    names = origin.operators if origin is not None else [match[1] for match in matches if match is not None]
    plain = dict.fromkeys(name.rstrip("_") for name in names)
    own = [name for name in plain if name.startswith("aten.") and not _CHEAP.fullmatch(name)]
    return tuple(sorted(own, key=lambda name: _POINTWISE.fullmatch(name) is not None))


def as_eager(case: Case, block: Block) -> tuple[str, ...]:
    """Operators of ATen that eager runs in a block and compiled code there does not, those that take longest
    first: a decomposition that takes a matrix product apart is seen here alone. None on a GPU, where the
    profile has names of kernels."""
    if case.gpu or not block.eager_ms:
        return ()
    there = {_plain(kernel.name) for kernel in block.compiled_kernels}
    names = []
    for kernel in sorted(block.eager_kernels, key=lambda kernel: -kernel.taken_ms):
        name = _plain(kernel.name)
        own = kernel.name.startswith(_ATENS) and not _RANDOM.fullmatch(name) and name not in there
        known = _CHEAP.fullmatch(f"aten.{name}") or library_call(name)
        if own and (name in _PRODUCTS or not known) and kernel.taken_ms >= _LEAST_OF_EAGER * block.eager_ms:
            names.append(f"aten.{_FUNCTIONAL.get(name, name)}")
    return tuple(dict.fromkeys(names))


def _plain(name: str) -> str:
    """`add` of `aten::add_`."""
    return name.removeprefix(_ATENS).rstrip("_")


_FUNCTIONAL = {"_index_put_impl": "index_put"}
"""What of a graph becomes an operator of another name when it runs."""
