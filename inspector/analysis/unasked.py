"""Gradients that a backward graph gives and nobody asks for.

AOTAutograd makes one graph of the whole backward: a call of it computes the gradients of all inputs of its
forward that require one. Where ``torch.autograd.grad`` asks for some, eager's engine runs the nodes on the
way to these alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from inspector.model.fx import FxGraph, FxNode
from inspector.model.source import Size

from .dataflow import operator

# l_self_modules_fc_parameters_weight_ (torch/_dynamo/variables/builder.py)
_WEIGHT = re.compile(r"_parameters_")


def unasked_nodes(
    graph: FxGraph | None, traced: FxGraph | None, asked: Sequence[Sequence[int]]
) -> frozenset[str]:
    """The nodes of a backward graph that lead to nothing but gradients of weights, unless tensors of their
    shapes are among the `asked`. Its outputs are of the inputs of what Dynamo `traced`, one by one; empty
    where they are not. Any other input may be what a gradient passes through."""
    inputs = traced.placeholders if traced is not None else ()
    if graph is None or not asked or len(inputs) != len(graph.outputs):
        return frozenset()
    nodes = {node.name: node for node in graph.nodes}
    wanted = [
        name
        for name, given in zip(graph.outputs, inputs, strict=True)
        if name in nodes
        and (_WEIGHT.search(given.name) is None or any(_may_be(nodes[name], each) for each in asked))
    ]
    if not wanted:
        return frozenset()
    needed = set(wanted)
    for node in reversed(graph.nodes):
        # What changes a tensor in place is done for itself.
        if node.name in needed or operator(node.target).endswith("_"):
            needed.update((node.name, *node.inputs))
    return frozenset(name for name, node in nodes.items() if node.kind != "placeholder") - needed


def _may_be(node: FxNode, shape: Sequence[int]) -> bool:
    """Whether a node gives a tensor of that shape; a symbolic size may be any."""
    own: Sequence[Size] | None = node.meta.shape if node.meta is not None else None
    return own is None or (
        len(own) == len(shape)
        and all(not isinstance(size, int) or size == other for size, other in zip(own, shape, strict=True))
    )


def half_unasked(nodes: Mapping[str, FxNode], name: str, unasked: frozenset[str]) -> bool:
    """Whether a convolution's backward gives its weight's gradient, not asked for, and one that is."""
    node = nodes[name]
    if operator(node.target) != "convolution_backward" or name in unasked:
        return False
    results = [nodes[user] for user in node.users if user in nodes]
    # getitem: of the input, the weight and the bias
    return any(user.name in unasked and user.arguments[1:2] == ("1",) for user in results)
