"""Writes that the program makes in place, found again in a graph that has none.

Functionalisation (torch/_functorch/_aot_autograd/functional_utils.py) turns a write into a part of a tensor
into a new tensor: ``slice_scatter(x, new, ...)``, or ``index_put(x, ...)``, a chain of them where the part is
a view of a view, and a ``copy_`` into an input that the program changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field

from inspector.frozen import dataclass
from inspector.model.fx import FxGraph, FxNode
from inspector.model.source import SourceLocation

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
    """The storages that a graph writes in parts. `after` is the graph that was lowered; `before` has its
    nodes in the program's order, and lines of nodes that the other has none for. What the program asked for
    as a new tensor is none of them, nor is one of which an older version is read later on."""
    if after is None:
        return InPlace()
    lines = {node.name: node.source for graph in (before, after) if graph for node in graph.nodes}
    walk = _Walk(after, lines)
    first = _Walk(before, lines) if before is not None else walk
    inputs = {node.name for node in after.placeholders}
    storages = {
        name: Storage(name, frozenset(walk.versions[name]), parts, name in walk.returned)
        for name, parts in walk.parts.items()
        # A version of an input that is not copied back is a copy that the program asked for.
        if name not in walk.asked_for
        and name not in (first if name in first.parts else walk).older_read
        and (name in walk.returned or name not in inputs)
    }
    return InPlace(storages, {name: held for name, held in walk.root.items() if held in storages})


class _Walk:
    """One pass over a graph. `root`: view or version -> storage; `parts` and `versions` by storage;
    `older_read` are storages of which something reads a version that was written over by then."""

    def __init__(self, graph: FxGraph, lines: Mapping[str, SourceLocation | None]) -> None:
        self.root: dict[str, str] = {}
        self.versions: dict[str, set[str]] = {}
        self.parts: dict[str, dict[str, str | None]] = {}
        self.returned: set[str] = set()
        self.asked_for: set[str] = set()
        self.older_read: set[str] = set()
        self._newest: dict[str, str] = {}
        self._shows: dict[str, str] = {}
        """View or version -> the part that was written last in what it shows."""
        for node in graph.nodes:
            kind = operator(node.target) if node.kind == "call" else ""
            base = _named(node, 0)
            if base and kind in VIEWS:
                self.root[node.name] = self.root.get(base, base)
                self._shows[node.name] = self._shows.get(base, base)
            elif base and kind in _INTO:
                self._into(node, kind, base)
            elif base and kind in _OF_PARTS | _BY_INDEX:
                self._write(node, base, _named(node, 1) if kind in _OF_PARTS else None, lines)
            else:
                # The first argument of ``copy`` is where it goes; nothing of it is read.
                self._read(node.inputs[kind == "copy" :])
        self._read([name for name in graph.outputs if name])

    def _into(self, node: FxNode, kind: str, base: str) -> None:
        own, source = self.root.get(base, base), _named(node, 1)
        if kind == "copy_" and source and self.root.get(source, source) == own != source:
            self.versions.setdefault(own, set()).add(node.name)
            self.returned.add(own)

    def _write(
        self, node: FxNode, base: str, source: str | None, lines: Mapping[str, SourceLocation | None]
    ) -> None:
        own = self.root.get(base, base)
        carried = source is not None and self.root.get(source) == own
        # A chain writes the part into the view, then the view into the whole: both show the new version.
        self.root[node.name] = own
        self._shows[node.name] = self._shows.get(source or "", "") if carried else node.name
        self.versions.setdefault(own, set()).add(node.name)
        if not carried:
            if _asked_for(node, lines.get(node.name)):
                self.asked_for.add(own)
            self.parts.setdefault(own, {})[node.name] = source
            self._newest[own] = node.name

    def _read(self, names: Iterable[str]) -> None:
        for name in names:
            own = self.root.get(name, name)
            if own in self._newest and self._shows.get(name, name) != self._newest[own]:
                self.older_read.add(own)


def _named(node: FxNode, position: int) -> str | None:
    """The node that is a positional argument."""
    text = node.arguments[position] if position < len(node.arguments) else ""
    return text if text in node.inputs else None


def _asked_for(node: FxNode, source: SourceLocation | None) -> bool:
    place = source or node.source
    return bool(_FUNCTIONAL.search(place.code or "")) if place is not None else False
