"""Writes that the program makes in place, found again in a graph that has none.

Functionalisation (torch/_functorch/_aot_autograd/functional_utils.py) turns a write into a part of a tensor
into a new tensor: ``slice_scatter(x, new, ...)``, or ``index_put(x, ...)``, a chain of them where the part is
a view of a view, and a ``copy_`` into an input that the program changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from inspector.model.fx import FxGraph, FxNode

from .dataflow import VIEWS, operator

_OF_PARTS = frozenset({"slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter"})
_BY_INDEX = frozenset({"index_put", "_unsafe_index_put", "index_copy", "scatter"})
_INTO = frozenset({"copy_", "index_put_", "_unsafe_index_put_", "index_copy_", "scatter_"})
CARRIES = _OF_PARTS | {"copy_"}
"""What only takes a written part on, into the whole or back into the input."""
# out = torch.slice_scatter(...), x.index_put((i,), v): asked for as a new tensor
_FUNCTIONAL = re.compile(r"\b(?:\w+_scatter|index_put|index_copy|scatter)\(")


@dataclass(frozen=True, slots=True)
class Storage:
    """A tensor that the program writes in parts, by the FX node that it begins as.

    `versions` are the nodes that stand for all or a view of it after a write; `parts` are the writes
    themselves, each a version, with the node that is written, None where indices say where. `returned`:
    its last version is copied back into the input that it is.
    """

    name: str
    versions: frozenset[str]
    parts: Mapping[str, str | None]
    returned: bool


@dataclass(frozen=True, slots=True)
class InPlace:
    """`storages` by name; `root` is the node that each view or version is a view or version of."""

    storages: Mapping[str, Storage] = field(default_factory=dict)
    root: Mapping[str, str] = field(default_factory=dict)


def writes_in_place(after: FxGraph | None, before: FxGraph | None) -> InPlace:
    """The storages that a graph writes in parts. `after` is the graph that was lowered; `before` has lines of
    nodes that the other has none for. What the program asked for as a new tensor is none of them, nor is
    one whose older version something still reads."""
    if after is None:
        return InPlace()
    lines = {node.name: node.source for graph in (before, after) if graph for node in graph.nodes}
    root: dict[str, str] = {}
    versions: dict[str, set[str]] = {}
    parts: dict[str, dict[str, str | None]] = {}
    newest: dict[str, str] = {}
    state: dict[str, str] = {}
    """View or version -> the version that it shows."""
    spoilt: set[str] = set()
    returned: set[str] = set()
    for node in after.nodes:
        kind = operator(node.target) if node.kind == "call" else ""
        base = _named(node, 0)
        own = root.get(base, base) if base else ""
        if kind in VIEWS and base:
            root[node.name], state[node.name] = own, state.get(base, base)
            continue
        if kind in _INTO and base:
            source = _named(node, 1)
            if kind == "copy_" and source and root.get(source, source) == own != source:
                versions.setdefault(own, set()).add(node.name)
                returned.add(own)
            continue
        if kind in _OF_PARTS | _BY_INDEX and base:
            source = _named(node, 1) if kind in _OF_PARTS else None
            carried = source is not None and root.get(source) == own
            # A chain writes the part into the view, then the view into the whole: both show the new version.
            shown = state.get(source or "", "") if carried else node.name
            root[node.name], state[node.name] = own, shown
            versions.setdefault(own, set()).add(node.name)
            if not carried:
                if _asked_for(node, lines.get(node.name)):
                    spoilt.add(own)
                parts.setdefault(own, {})[node.name] = source
                newest[own] = node.name
            continue
        # The first argument of ``copy`` is where it goes; nothing of it is read.
        spoilt |= _older(node.inputs[kind == "copy" :], root, state, newest)
    spoilt |= _older([name for name in after.outputs if name], root, state, newest)
    inputs = {node.name for node in after.placeholders}
    storages = {
        name: Storage(name, frozenset(versions[name]), parts[name], name in returned)
        for name in parts
        # A version of an input that is not copied back is a copy that the program asked for.
        if name not in spoilt and (name in returned or name not in inputs)
    }
    return InPlace(storages, {name: held for name, held in root.items() if held in storages})


def _older(
    names: Iterable[str], root: Mapping[str, str], state: Mapping[str, str], newest: Mapping[str, str]
) -> set[str]:
    """Storages of which a version is read that was overwritten."""
    held = ((root.get(name, name), state.get(name, name)) for name in names)
    return {own for own, version in held if own in newest and version != newest[own]}


def _named(node: FxNode, position: int) -> str | None:
    """The node that is a positional argument."""
    text = node.arguments[position] if position < len(node.arguments) else ""
    return text if text in node.inputs else None


def _asked_for(node: FxNode, source: object) -> bool:
    code = getattr(source, "code", None) or getattr(node.source, "code", None) or ""
    return bool(_FUNCTIONAL.search(code))
