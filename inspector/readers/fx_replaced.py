"""Lines of the program for nodes that a pass made, which have no stack trace.

What Inductor's pattern matcher puts in place of other nodes has none (torch/_inductor/pattern_matcher.py:
`ReplacementPatternEntry`; the commonest are `mm` and `add` of a backward graph, which become one `addmm`, a
softmax with its scale, scatters of views), while the nodes that it stands for have theirs in the graph before
the passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from inspector.model.fx import FxGraph, FxNode
from inspector.model.source import SourceLocation


def with_lines(
    after: FxGraph | None, before: FxGraph | None, earlier: Mapping[str, tuple[str, ...]]
) -> FxGraph | None:
    """`after` with lines for nodes that have none. `earlier`: what torch says each node came of, calls of the
    program or nodes of `before`.

    Such a node has the line of that in `before`; of what it replaced there, nodes that are gone and are
    worked out from its inputs alone; of the other nodes that came of the same call; else of all its users,
    where that is one. Where none is known it stays without."""
    if after is None or all(node.source is not None for node in after.operations):
        return after
    known = {node.name: node for node in before.nodes} if before is not None else {}
    kept = {node.name for node in after.nodes}
    gone = {name: node for name, node in known.items() if name not in kept and node.kind != "placeholder"}
    places: dict[str, SourceLocation] = {}
    of_calls: dict[str, list[SourceLocation | None]] = {}
    for node in after.nodes:
        came_of = earlier.get(node.name, ())
        same = (known[name].source for name in (node.name, *came_of) if name in known)
        place = node.source or next(filter(None, same), None)
        if place is None and node.kind == "call" and (stood := _stands_for(node, known, gone)) is not None:
            place = stood.source
        if place is not None:
            places[node.name] = place
            for name in came_of:
                of_calls.setdefault(name, []).append(place)
    users: dict[str, list[SourceLocation | None]] = {}
    for node in reversed(after.nodes):
        if node.kind == "call" and node.name not in places:
            alike = [place for name in earlier.get(node.name, ()) for place in of_calls.get(name, ())]
            place = _only(alike) or _only(users.get(node.name, ()))
            if place is not None:
                places[node.name] = place
        for name in node.inputs:
            users.setdefault(name, []).append(places.get(node.name))
    nodes = (
        node if node.source is not None else replace(node, source=places.get(node.name))
        for node in after.nodes
    )
    return replace(after, nodes=tuple(nodes))


def _only(places: Sequence[SourceLocation | None]) -> SourceLocation | None:
    """Where all of them are of one line that."""
    return places[0] if places and len({str(place) for place in places}) == 1 else None


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
    return node.target.removeprefix("torch.ops.").split(".")[:2][-1]
