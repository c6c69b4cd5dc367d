"""Lines of the program for nodes that a pass put in place of others.

A replacement that Inductor's pattern matcher makes has no stack trace (torch/_inductor/pattern_matcher.py:
`ReplacementPatternEntry`; the commonest are `mm` and `add` of a backward graph, which become one `addmm`),
while the nodes that it stands for have theirs in the graph before the passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from inspector.model.fx import FxGraph, FxNode


def with_lines(after: FxGraph | None, before: FxGraph | None) -> FxGraph | None:
    """`after`, where an operator that has no line has that of what it replaced in `before`: nodes that are
    gone, and are worked out from its inputs alone. What replaced nothing that is known stays without."""
    if after is None or before is None or all(node.source is not None for node in after.operations):
        return after
    kept = {node.name for node in after.nodes}
    known = {node.name: node for node in before.nodes}
    gone = {node.name: node for node in before.operations if node.name not in kept}
    nodes = tuple(
        replace(node, source=stood.source)
        if node.kind == "call" and node.source is None and (stood := _stands_for(node, known, gone))
        else node
        for node in after.nodes
    )
    return replace(after, nodes=nodes)


def _stands_for(node: FxNode, known: Mapping[str, FxNode], gone: Mapping[str, FxNode]) -> FxNode | None:
    """Of the nodes that it replaced one with a line: its own operator (`mm` of `addmm`), else the last."""
    given = set(node.inputs)
    found: list[FxNode] = []
    waiting = list(node.inputs)
    while waiting:
        name = waiting.pop(0)
        for user in known[name].users if name in known else ():
            if user in gone and user not in given and given.issuperset(gone[user].inputs):
                given.add(user)
                found.append(gone[user])
                waiting.append(user)
    placed = [item for item in found if item.source is not None]
    own = _operator(node)
    return next((item for item in placed if own.endswith(_operator(item))), placed[-1] if placed else None)


def _operator(node: FxNode) -> str:
    """`torch.ops.aten.addmm.default` -> `addmm`."""
    return node.target.removeprefix("torch.ops.").split(".")[1] if "." in node.target else node.target
