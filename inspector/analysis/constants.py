"""FX nodes that depend on nothing that a graph is given, or on what stays the same: they come out the same in
every call."""

from __future__ import annotations

from inspector.model.fx import FxGraph

from .dataflow import operator

_RANDOM = (
    "rand",
    "bernoulli",
    "normal",
    "uniform",
    "multinomial",
    "poisson",
    "exponential",
    "seed",
    "dropout",
)


def is_random(operator: str) -> bool:
    """Whether an operator of that name makes random numbers, or the seeds of some."""
    return any(word in operator for word in _RANDOM)


def constant_nodes(graph: FxGraph | None, same: frozenset[str] = frozenset()) -> frozenset[str]:
    """The calls that compute from constants alone, and from those inputs that are the `same` in every call.
    Random ones, and what changes memory, are none of them; an attribute of the module is an input."""
    constant = set(same)
    for node in graph.nodes if graph else ():
        if node.kind not in ("call", "getitem") or not constant.issuperset(node.inputs):
            continue
        name = operator(node.target)
        if not name.endswith("_") and not is_random(name):
            constant.add(node.name)
    return frozenset(constant - same)
