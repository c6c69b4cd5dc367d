"""Kernel calls <-> scheduler nodes <-> FX nodes, from several kinds of evidence.

Scheduler nodes first. The wrapper names an argument after the buffer that a node writes, so shared
buffer names say which entries a launch stands for; launches follow ir_post_fusion.txt's order
(torch/_inductor/scheduler.py: Scheduler.codegen walks `self.nodes`), so what names leave open,
such as a node that only mutates, is settled by position.

FX nodes then, strongest evidence first: the subgraph that holds the call (of cond, while_loop), the
provenance mapping, graph fragment, origins in the record or the fusion log, and for extern calls the
operator together with the inputs that it reads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from inspector.model.code import Alias, Allocation, KernelCall, OutputCode
from inspector.model.fx import FxGraph, FxNode
from inspector.model.links import CallLink, Evidence, Linkage
from inspector.model.logs import FusionLog
from inspector.model.record import GraphRecord
from inspector.model.run import GraphArtifacts
from inspector.model.schedule import Schedule, SchedulerNode
from inspector.model.source import Size

from .dataflow import VIEW_OPERATORS, Dataflow, operator

# extern_kernels.mm(buf1, primals_2, out=buf9), and not out=reinterpret_tensor(buf9, ...)
_WHOLE_RESULT = re.compile(r"\bout=(\w+)\)")

_SILENT_INNER = {"MultiOutput", "NopKernel", "ConcatKernel"}
"""IR classes that launch nothing: a part of another's result, or memory that others fill."""


def link_graph(artifacts: GraphArtifacts) -> Linkage:
    """All links of one compiled graph; what is absent gives empty links, never an error."""
    if artifacts.code is None:
        return Linkage(calls=())
    entries = _link_entries(artifacts.post, artifacts.code)
    evidence = _FxEvidence(artifacts)
    links = []
    for call in artifacts.code.calls:
        names, entries_evidence = entries.get(call.index, ((), ()))
        fx, fx_evidence = evidence.of(call, names)
        links.append(CallLink(call.index, names, entries_evidence, fx, fx_evidence))
    provenance = artifacts.provenance
    return Linkage(tuple(links), tuple(provenance.post_to_pre.items()) if provenance else ())


# -- scheduler nodes


def launches(node: SchedulerNode) -> bool:
    """Whether an entry of the post-fusion schedule makes a launch of its own."""
    if node.cls.startswith("Nop"):
        return False
    return node.is_group or not set(node.inner) <= _SILENT_INNER


def written_names(node: SchedulerNode) -> set[str]:
    """Every name under which the wrapper may know what an entry writes: its buffers, and what they mutate."""
    names: set[str] = set()
    for leaf in (*node.leaves(), node):
        names.update(dep.buffer for dep in leaf.writes)
        for buffer in leaf.outputs:
            names.add(buffer.name)
            names.update(buffer.mutations)
    return names


def _link_entries(
    post: Schedule | None, code: OutputCode
) -> dict[int, tuple[tuple[str, ...], tuple[Evidence, ...]]]:
    """Call index -> (entry names, evidence)."""
    if post is None:
        return {}
    entries = [node for node in post.nodes if launches(node)]
    calls = code.calls
    by_buffer = _match_by_buffers(entries, calls, code)
    links: dict[int, list[int]] = {call.index: [] for call in calls}
    proof: dict[int, list[Evidence]] = {call.index: [] for call in calls}
    for position, indices in enumerate(by_buffer):
        for index in indices:
            links[index].append(position)
            _add(proof[index], "buffers")
    _match_by_order(entries, calls, by_buffer, links, proof)
    for call in calls:
        targets = {entries[position].kernel for position in links[call.index]}
        if call.kind in ("extern", "fallback") and any(
            _same_target(call.kernel, target) for target in targets
        ):
            _add(proof[call.index], "extern target")
    _repeat_for_same_line(calls, links, proof)
    return {
        index: (tuple(entries[position].name for position in sorted(positions)), tuple(proof[index]))
        for index, positions in links.items()
        if positions
    }


def _match_by_buffers(
    entries: Sequence[SchedulerNode], calls: Sequence[KernelCall], code: OutputCode
) -> list[list[int]]:
    """For each entry, the calls that write one of its buffers, kept in the schedule's order."""
    writers: dict[str, list[int]] = {}
    unpacked = {
        step.name: step.source for step in code.steps if isinstance(step, Alias) and step.kind == "unpack"
    }
    for call in calls:
        for name in call.outputs:
            writers.setdefault(name, []).append(call.index)
    assigned: list[list[int]] = []
    floor = 0
    for entry in entries:
        candidates: set[int] = set()
        for name in written_names(entry):
            candidates.update(writers.get(name, ()))
            if name in unpacked:
                candidates.update(writers.get(unpacked[name], ()))
        # A buffer that several entries write in turn (a mutation) belongs to the first call not yet passed.
        ahead = sorted(index for index in candidates if index >= floor and _fits(entry, calls[index]))
        if entry.cls.startswith("Foreach"):
            assigned.append(ahead)
        else:
            assigned.append(ahead[:1])
        if ahead:
            shared = calls[assigned[-1][-1]].kind == "cpp"
            floor = assigned[-1][-1] + (0 if shared else 1)
    return assigned


def _fits(entry: SchedulerNode, call: KernelCall) -> bool:
    """Whether a launch can stand for an entry at all: extern entries make extern or fallback calls."""
    if entry.is_extern and entry.kernel not in (None, "None"):
        return call.kind in ("extern", "fallback", "template", "user") or _same_target(
            call.kernel, entry.kernel
        )
    return True


def _match_by_order(
    entries: Sequence[SchedulerNode],
    calls: Sequence[KernelCall],
    by_buffer: list[list[int]],
    links: dict[int, list[int]],
    proof: dict[int, list[Evidence]],
) -> None:
    """Settle entries that no buffer name claims, between the neighbours that are settled."""
    position = 0
    while position < len(entries):
        if by_buffer[position]:
            position += 1
            continue
        end = position
        while end < len(entries) and not by_buffer[end]:
            end += 1
        before = by_buffer[position - 1][-1] if position else -1
        after = by_buffer[end][0] if end < len(entries) else len(calls)
        free = [call for call in calls[before + 1 : after] if not links[call.index]]
        waiting = list(range(position, end))
        for call in free:
            fitting = next((p for p in waiting if _fits_by_order(entries[p], call)), None)
            if fitting is not None:
                waiting.remove(fitting)
                links[call.index].append(fitting)
                _add(proof[call.index], "order")
        for p in waiting:
            # A C++ kernel may hold several consecutive entries (codegen/cpp.py: CppScheduling.fuse).
            for index in (before, after):
                if (
                    0 <= index < len(calls)
                    and calls[index].kind == "cpp"
                    and entries[p].device in (None, "cpu")
                ):
                    links[index].append(p)
                    _add(proof[index], "order")
                    break
        position = end


def _fits_by_order(entry: SchedulerNode, call: KernelCall) -> bool:
    outside = call.kind in ("extern", "fallback")
    return entry.is_extern == (outside or call.kind == "user")


def _repeat_for_same_line(
    calls: Sequence[KernelCall], links: dict[int, list[int]], proof: dict[int, list[Evidence]]
) -> None:
    """A subgraph that is called again (torch/_higher_order_ops: invoke_subgraph, while_loop) launches
    the same lines again, and they stand for the same entries."""
    first: dict[int, int] = {}
    for call in calls:
        line = call.span.first
        if links[call.index]:
            first.setdefault(line, call.index)
        elif line in first:
            links[call.index] = links[first[line]]
            proof[call.index] = list(proof[first[line]])


def _same_target(called: str, target: str | None) -> bool:
    """`aten.mm.default` (2.4) and `torch.ops.aten.mm.default` are the same operator."""
    if target is None:
        return False
    return called.removeprefix("torch.ops.") == target.removeprefix("torch.ops.")


# -- FX nodes


class _FxEvidence:
    """The kinds of evidence for one graph's FX nodes, each worked out when the stronger ones say nothing."""

    def __init__(self, artifacts: GraphArtifacts) -> None:
        self._artifacts = artifacts
        self._runs = _subgraph_runs(artifacts.fx_after)
        self._first_calls: dict[str, int] = {}
        self._fragments: dict[str, list[str]] = {}
        code = artifacts.code
        for call in code.calls if code else ():
            self._first_calls.setdefault(call.kernel, call.index)
        for kernel in code.kernels if code else ():
            if kernel.fragment is not None:
                self._fragments[kernel.name] = [n.name for n in kernel.fragment.nodes if n.kind == "call"]

    def of(self, call: KernelCall, entries: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[Evidence, ...]]:
        """FX node names and what names them; both empty where nothing does."""
        # Of one inside another the wrapper's names have both: true_graph_0_false_graph_0_buf1.
        inside = [name for name in self._runs if any(own.startswith(f"{name}_") for own in call.buffers)]
        if inside:
            return self._runs[max(inside, key=len)], ("subgraph",)
        provenance = self._artifacts.provenance
        if provenance is not None and call.handle is not None:
            names = self._by_handle.get(str(call.handle), ())
            if names:
                return names, ("provenance",)
        # A kernel that is launched again keeps the fragment of the first place it was made for.
        if self._first_calls[call.kernel] == call.index and self._fragments.get(call.kernel):
            return tuple(self._fragments[call.kernel]), ("fragment",)
        origins = self._origins_of(entries)
        if origins:
            return origins, ("origins",)
        if call.index in self._externs:
            return (self._externs[call.index],), ("operator",)
        computed = self._flow.computed_by(call) if self._flow is not None else ()
        return (computed, ("dataflow",)) if computed else ((), ())

    @cached_property
    def _by_handle(self) -> dict[str, tuple[str, ...]]:
        """Post-grad nodes by the number that ends the JSON's kernel keys: it is unique in the wrapper."""
        provenance = self._artifacts.provenance
        pairs = provenance.kernel_to_post.items() if provenance is not None else ()
        return {key.rpartition(":")[2]: names for key, names in pairs}

    def _origins_of(self, entries: tuple[str, ...]) -> tuple[str, ...]:
        origins: dict[str, None] = {}
        for name in entries:
            node = self._artifacts.post.find(name) if self._artifacts.post is not None else None
            for leaf in node.leaves() if node is not None else ():
                origins.update(dict.fromkeys(self._origins.get(leaf.name, ())))
        return tuple(origins)

    @cached_property
    def _origins(self) -> dict[str, tuple[str, ...]]:
        return _origins(self._artifacts.fusion, self._artifacts.record)

    @cached_property
    def _externs(self) -> dict[int, str]:
        assert self._artifacts.code is not None
        return _link_externs(self._artifacts.code, self._artifacts.fx_after)

    @cached_property
    def _flow(self) -> Dataflow | None:
        fx, code = self._artifacts.fx_after, self._artifacts.code
        return Dataflow(code, fx, self._externs) if fx is not None and code is not None else None


def _subgraph_runs(fx: FxGraph | None) -> dict[str, tuple[str, ...]]:
    """Subgraph -> the nodes that run it; its own nodes have names that the graph's may have as well."""
    operations = fx.operations if fx is not None else ()
    running = {node.name for node in operations if ".higher_order." in node.target}
    attributes = (node for node in operations if node.kind == "attribute")
    return {node.name: node.users for node in attributes if running.intersection(node.users)}


def _origins(fusion: FusionLog | None, record: GraphRecord | None) -> dict[str, tuple[str, ...]]:
    """Scheduler node -> FX nodes, from the recorder, which asked torch itself and knows extern nodes too;
    else from the log's candidate lines, where a node's own line beats its group's."""
    origins: dict[str, tuple[str, ...]] = record.origins() if record is not None else {}
    for candidate in fusion.candidates if fusion else ():
        if candidate.members in ((), (candidate.name,)):
            origins.setdefault(candidate.name, candidate.origins)
    return origins


def _link_externs(code: OutputCode, fx: FxGraph | None) -> dict[int, str]:
    """Extern and fallback calls to FX nodes of the same operator that read the same graph inputs.

    Calls and nodes of one operator are mostly in the same order in both files, but not always, so
    the inputs decide, and the size of a result that the wrapper allocated; what is left is paired in
    order where there are as many calls as nodes.
    """
    if fx is None:
        return {}
    waiting: dict[str, list[FxNode]] = {}
    for node in fx.operations:
        waiting.setdefault(operator(node.target), []).append(node)
    inputs = _graph_inputs(fx)
    placeholders = {node.name for node in fx.placeholders}
    allocated = {step.name: step.size for step in code.steps if isinstance(step, Allocation)}
    nodes: dict[int, str] = {}
    left: dict[str, list[KernelCall]] = {}

    def sized(call: KernelCall) -> tuple[Size, ...] | None:
        """Of the result, where it is a whole buffer."""
        written = _WHOLE_RESULT.search(call.text)
        return allocated.get(written[1]) if written is not None else None

    def fits(call: KernelCall, node: FxNode) -> bool:
        size = sized(call)
        return size is None or node.meta is None or node.meta.shape == size

    for call in code.calls:
        if call.kind not in ("extern", "fallback"):
            continue
        name = operator(call.kernel)
        read = placeholders.intersection(call.buffers)
        match = next(
            (node for node in waiting.get(name, ()) if inputs[node.name] == read and fits(call, node)), None
        )
        if match is None:
            left.setdefault(name, []).append(call)
        else:
            waiting[name].remove(match)
            nodes[call.index] = match.name
    for name, calls in left.items():
        if len(calls) == len(waiting.get(name, ())):
            # What is known by its size first: the others take what is left.
            for call in sorted(calls, key=lambda call: sized(call) is None):
                first = next((node for node in waiting[name] if fits(call, node)), None)
                if first is not None:
                    waiting[name].remove(first)
                    nodes[call.index] = first.name
    return nodes


def _graph_inputs(fx: FxGraph) -> dict[str, set[str]]:
    """For each node, the placeholders that it reads directly or through views: one pass, as nodes come in
    order, and nothing for networkx, whose closures know no nodes to stop at."""
    reach: dict[str, set[str]] = {}
    result: dict[str, set[str]] = {}
    for node in fx.nodes:
        if node.kind == "placeholder":
            reach[node.name] = {node.name}
            result[node.name] = {node.name}
            continue
        direct: set[str] = (
            set().union(*(reach.get(name, set()) for name in node.inputs)) if node.inputs else set()
        )
        result[node.name] = direct
        reach[node.name] = direct if operator(node.target) in VIEW_OPERATORS else set()
    return result


def _add(evidence: list[Evidence], kind: Evidence) -> None:
    if kind not in evidence:
        evidence.append(kind)
