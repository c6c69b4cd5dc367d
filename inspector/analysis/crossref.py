"""From any one thing (a source line, an FX node, a scheduler node, a kernel, a code line) to all
that it became and all that it came from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from inspector.model.fx import FxGraph
from inspector.model.links import Evidence, Linkage, Ref, Related
from inspector.model.run import GraphArtifacts
from inspector.model.source import LineSpan

_Key = TypeVar("_Key")


class CrossReference:
    """Built once for a graph; `related` then answers without searching files.

    An FX node leads to single scheduler nodes where the fusion log names their origins, otherwise to
    all members of the entries that its kernel calls stand for.
    """

    def __init__(self, artifacts: GraphArtifacts, linkage: Linkage) -> None:
        self._artifacts = artifacts
        self._links = {link.call: link for link in linkage.calls}
        self._calls_of_fx: dict[str, set[int]] = {}
        self._calls_of_entry: dict[str, set[int]] = {}
        self._calls_of_kernel: dict[str, set[int]] = {}
        for link in linkage.calls:
            for name in link.fx:
                self._calls_of_fx.setdefault(name, set()).add(link.call)
            for entry in link.entries:
                self._calls_of_entry.setdefault(entry, set()).add(link.call)
        self._calls = {call.index: call for call in artifacts.code.calls} if artifacts.code else {}
        for call in self._calls.values():
            self._calls_of_kernel.setdefault(call.kernel, set()).add(call.index)
        self._entry_of: dict[str, str] = {}
        self._leaves_of: dict[str, tuple[str, ...]] = {}
        for node in artifacts.post.nodes if artifacts.post else ():
            leaves = tuple(leaf.name for leaf in node.leaves())
            self._leaves_of[node.name] = leaves
            self._entry_of.update(dict.fromkeys(leaves, node.name))
        self._fx_of_leaf: dict[str, tuple[str, ...]] = {}
        self._leaves_of_fx: dict[str, set[str]] = {}
        for candidate in artifacts.fusion.candidates if artifacts.fusion else ():
            if candidate.members not in ((), (candidate.name,)) or candidate.name in self._fx_of_leaf:
                continue
            self._fx_of_leaf[candidate.name] = candidate.origins
            for origin in candidate.origins:
                self._leaves_of_fx.setdefault(origin, set()).add(candidate.name)
        self._call_at = _Covered([(call, self._call_span(call)) for call in self._calls])
        self._kernel_at = _Covered(
            [
                (kernel.name, kernel.span)
                for kernel in (artifacts.code.kernels if artifacts.code else ())
                if kernel.span is not None
            ]
        )
        self._after = _Sources(artifacts.fx_after)
        self._before = _Sources(artifacts.fx_before)

    def related(self, ref: Ref) -> Related:
        """Everything that `ref` touches; an unknown key touches nothing but itself."""
        if ref.kind in ("source", "fx_before", "fx_after"):
            return self._from_fx(ref)
        if ref.kind == "node":
            return self._from_node(ref.key)
        if ref.kind == "kernel":
            return self._from_calls(self._calls_of_kernel.get(ref.key, set()), kernels={ref.key})
        if ref.kind == "call":
            return self._from_calls({int(ref.key)})
        return self._from_line(int(ref.key))

    def related_to_all(self, refs: Iterable[Ref]) -> Related:
        """Everything that any of `refs` touches."""
        each = [self.related(ref) for ref in refs]

        def union(field: str) -> frozenset[Any]:
            return frozenset().union(*(getattr(related, field) for related in each))

        names = ("sources", "fx_before", "fx_after", "entries", "leaves", "kernels", "calls")
        code = {span for related in each for span in related.code}
        return Related(
            **{name: union(name) for name in names},
            code=tuple(sorted(code, key=lambda span: (span.first, span.last))),
            evidence=tuple(dict.fromkeys(kind for related in each for kind in related.evidence)),
        )

    def _from_fx(self, ref: Ref) -> Related:
        if ref.kind == "source":
            after, before = self._after.at(ref.key), self._before.at(ref.key)
        elif ref.kind == "fx_after":
            after = {ref.key}
            before = self._before.named_or_at(ref.key, self._after.place(ref.key))
        else:
            before = {ref.key}
            after = self._after.named_or_at(ref.key, self._before.place(ref.key))
        calls = set().union(*(self._calls_of_fx.get(name, set()) for name in after))
        leaves = set().union(*(self._leaves_of_fx.get(name, set()) for name in after))
        calls.update(*(self._calls_of_entry.get(self._entry_of.get(leaf, ""), set()) for leaf in leaves))
        if not leaves:
            leaves = {leaf for call in calls for leaf in self._leaves_of_call(call)}
        sources = {ref.key} if ref.kind == "source" else set()
        return self._build(after=after, before=before, leaves=leaves, calls=calls, sources=sources)

    def _from_node(self, name: str) -> Related:
        leaves = set(self._leaves_of.get(name, ())) or {name}
        entries = {self._entry_of.get(leaf, leaf) for leaf in leaves}
        calls = set().union(*(self._calls_of_entry.get(entry, set()) for entry in entries))
        after = {origin for leaf in leaves for origin in self._fx_of_leaf.get(leaf, ())}
        if not after:
            after = {name for call in calls for name in self._links[call].fx}
        return self._build(after=after, before=self._twins(after), leaves=leaves, calls=calls)

    def _from_calls(self, calls: set[int], kernels: Iterable[str] = ()) -> Related:
        calls = {call for call in calls if call in self._calls}
        after = {name for call in calls for name in self._links[call].fx}
        leaves = {leaf for call in calls for leaf in self._leaves_of_call(call)}
        return self._build(
            after=after, before=self._twins(after), leaves=leaves, calls=calls, kernels=set(kernels)
        )

    def _from_line(self, line: int) -> Related:
        if (call := self._call_at.at(line)) is not None:
            return self._from_calls({call})
        if (kernel := self._kernel_at.at(line)) is not None:
            return self._from_calls(self._calls_of_kernel.get(kernel, set()), kernels={kernel})
        return Related(code=(LineSpan(line, line),))

    def _leaves_of_call(self, call: int) -> Iterable[str]:
        for entry in self._links[call].entries:
            yield from self._leaves_of.get(entry, (entry,))

    def _twins(self, after: set[str]) -> set[str]:
        """The same nodes in the graph before the post-grad passes."""
        return set().union(*(self._before.named_or_at(name, self._after.place(name)) for name in after))

    def _call_span(self, index: int) -> LineSpan:
        call = self._calls[index]
        first = call.origin.line if call.origin is not None else call.span.first
        return LineSpan(min(first, call.span.first), call.span.last)

    def _build(
        self,
        after: set[str],
        before: set[str],
        leaves: set[str],
        calls: set[int],
        sources: set[str] | None = None,
        kernels: set[str] | None = None,
    ) -> Related:
        named = set(kernels or ()) | {self._calls[call].kernel for call in calls}
        spans = [self._call_span(call) for call in sorted(calls)]
        for kernel in self._artifacts.code.kernels if self._artifacts.code else ():
            if kernel.name in named and kernel.span is not None:
                spans.append(kernel.span)
        places = set(sources or ()) or {place for name in after if (place := self._after.place(name))}
        places = places or {place for name in before if (place := self._before.place(name))}
        evidence: list[Evidence] = []
        for call in sorted(calls):
            link = self._links[call]
            evidence.extend(
                kind for kind in (*link.fx_evidence, *link.entries_evidence) if kind not in evidence
            )
        return Related(
            sources=frozenset(places),
            fx_before=frozenset(before),
            fx_after=frozenset(after),
            entries=frozenset(self._entry_of.get(leaf, leaf) for leaf in leaves),
            leaves=frozenset(leaves),
            kernels=frozenset(named),
            calls=frozenset(calls),
            code=tuple(sorted(spans, key=lambda span: span.first)),
            evidence=tuple(evidence),
        )


class _Covered(Generic[_Key]):
    """Which of many spans a line lies in: of several the first that was given."""

    def __init__(self, spans: Sequence[tuple[_Key, LineSpan]]) -> None:
        self._from: list[int] = []
        """Lines at which the answer may change."""
        self._keys: list[_Key | None] = []
        begins = sorted((span.first, order) for order, (_, span) in enumerate(spans))
        at, open_spans = 0, list[int]()
        for line in sorted({line for _, span in spans for line in (span.first, span.last + 1)}):
            while at < len(begins) and begins[at][0] == line:
                heappush(open_spans, begins[at][1])
                at += 1
            while open_spans and spans[open_spans[0]][1].last < line:
                heappop(open_spans)
            self._from.append(line)
            self._keys.append(spans[open_spans[0]][0] if open_spans else None)

    def at(self, line: int) -> _Key | None:
        place = bisect_right(self._from, line)
        return self._keys[place - 1] if place else None


class _Sources:
    """Names of one FX graph and the places in the user's program that they come from."""

    def __init__(self, graph: FxGraph | None) -> None:
        self._place: dict[str, str | None] = {}
        self._names: dict[str, set[str]] = {}
        for node in graph.nodes if graph else ():
            place = str(node.source) if node.source else None
            self._place[node.name] = place
            if place is not None:
                self._names.setdefault(place, set()).add(node.name)

    def place(self, name: str) -> str | None:
        return self._place.get(name)

    def at(self, place: str) -> set[str]:
        return self._names.get(place, set())

    def named_or_at(self, name: str, place: str | None) -> set[str]:
        """The node of that name; a pass that renamed it leaves the source line to go by."""
        if name in self._place:
            return {name}
        return self.at(place) if place is not None else set()
