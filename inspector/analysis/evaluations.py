"""How often the generated loops evaluate each expensive operator, against the elements of its result.

Inductor computes a producer where it is used (torch/_inductor/ir.py: StorageBox.should_realize_on_reuse says
when not): once per point of the consumer's loop and occurrence in it. A gather, a stencil, a window or a
broadcast then computes it many times for each element.

What does not change inside the innermost loops of a C++ kernel is taken out of them by the compiler, and a
Triton kernel that reduces computes it once for its rows, so that is not counted as repeated; nor is what is
the same in all its rows, which it computes for a tile of them at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from inspector.model.fusion import FusionReport, NodeTraffic
from inspector.model.fx import FxNode
from inspector.model.schedule import SchedulerNode
from inspector.model.source import SourceLocation
from inspector.model.waste import Evaluation

from .dataflow import VIEWS, operator
from .divisions import DIVIDE
from .index_ranges import IndexReader
from .loop_values import Computed, LoopValues

_FX_OPERATORS: dict[str, frozenset[str]] = {
    **{
        name: frozenset({name})
        for name in (
            "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sigmoid", "erf", "erfc",
            "erfinv", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh",
            "atanh", "sqrt", "rsqrt", "lgamma", "digamma", "fmod",
        )
    },
    "pow": frozenset({"pow"}),
    "truediv": frozenset({"div", "true_divide", "reciprocal"}),
    "div": frozenset({"div"}),
    "reciprocal": frozenset({"reciprocal"}),
    "remainder": frozenset({"remainder"}),
    "floordiv": frozenset({"floor_divide", "div"}),
}  # fmt: skip
"""Expensive calls of a loop body to the ATen operators that are lowered to them
(torch/_inductor/lowering.py: register_pointwise)."""

EXPENSIVE = frozenset(_FX_OPERATORS)
_LIGHT = frozenset({"sqrt", "rsqrt", "truediv", "div", "reciprocal"})
_WEIGHTS = {
    **dict.fromkeys(EXPENSIVE, 6.0),
    **dict.fromkeys(("erf", "erfc", "atan2", "tan", "asin", "acos", "sinh", "cosh"), 12.0),
    **dict.fromkeys(_LIGHT, 3.0),
    **dict.fromkeys(("pow", "lgamma", "digamma", "erfinv"), 40.0),
    **dict.fromkeys(("rand", "randn", "randint64"), 80.0),
    "gather": 8.0,
    "masked": 4.0,
    "division": 3.0,
}
"""Plain operations (an addition) that take as long, in vectors on a CPU, where Philox has none. Of those that
are no calls (inspector.analysis.loop_values) a mask is made of comparisons of 64-bit integers, and a division
in an index is done once for each vector."""
_BY_LANES = 30.0
"""The same of a division of integers on a CPU, which has no vectors of it: kept in memory, one that 64
elements had done by themselves left 0.14 of 0.23 ms (benchmarks/results/awkward-calls.txt)."""
_GPU_WEIGHTS = {
    **dict.fromkeys(EXPENSIVE, 30.0),
    **dict.fromkeys(_LIGHT | {"exp", "exp2", "log", "log2"}, 8.0),
    **dict.fromkeys(("erf", "erfc"), 40.0),
    **dict.fromkeys(("pow", "lgamma", "digamma", "erfinv", "atan2"), 100.0),
    **dict.fromkeys(("rand", "randn", "randint64"), 30.0),
    "sigmoid": 16.0,
    "gather": 2.0,
    "masked": 1.0,
    "division": 4.0,
}
"""The same in instructions of a GPU, both ways of a branch (libdevice)."""


_PLAIN = frozenset({
    "add", "sub", "mul", "neg", "abs", "where", "clamp", "clamp_min", "clamp_max", "maximum", "minimum",
    "relu", "rsub", "gt", "lt", "ge", "le", "square",
})  # fmt: skip
"""Operators on single elements that take one operation."""
_NONE = frozenset({"neg", "abs", "where", "gt", "lt", "ge", "le"})
"""Of them those that are no arithmetic (LoopValues.arithmetic)."""

WRITES = frozenset({"slice_scatter", "select_scatter"})
"""Of a part of a tensor, that make the whole of it anew."""
_CHOSEN = frozenset({"where"})
"""What they become, among others, in a loop."""
DOUBLED = 2
"""Such choices for each operator of a loop, from which on it is made of them: writes alone have one each."""
_MULTIPLIED = 32
"""Whole exponents below are multiplied out (torch/_inductor/lowering.py: pow)."""
LEAST_TIMES = 1.5
"""Less is the border of a window, or one value at the end of a row."""
_LEAST_PART = 0.02
"""Of what a kernel computes: the square root of a variance, taken for every element, is nothing."""


def repeated(evaluated: Iterable[Evaluation]) -> list[Evaluation]:
    """What is computed again and again, the largest part of its kernel first."""
    items = (item for item in evaluated if item.times >= LEAST_TIMES and item.part >= _LEAST_PART)
    return sorted(items, key=lambda item: -item.part)


def evaluations(
    groups: Mapping[str, Sequence[SchedulerNode]],
    nodes: Mapping[str, NodeTraffic],
    fx: Mapping[str, FxNode],
    reader: IndexReader,
) -> tuple[tuple[Evaluation, ...], dict[str, float]]:
    """Every expensive operator of every group that FX nodes are known for, in the groups' order; and all that
    the loops of each group do, in plain operations.

    `groups` are the post-fusion entries with their leaves as they are after fusion, `nodes` the leaves'
    traffic, `fx` the graph's nodes by name.
    """
    made: list[Evaluation] = []
    works: dict[str, float] = {}
    for group, leaves in groups.items():
        cpu = any(_on_cpu(nodes[leaf.name].device) for leaf in leaves if leaf.name in nodes)
        weights = _WEIGHTS if cpu else _GPU_WEIGHTS
        values: dict[str, dict[tuple[int, ...], dict[int, Computed]]] = {}
        candidates: dict[str, dict[str, None]] = {}
        again: list[tuple[Evaluation, float]] = []
        work = 0.0
        for leaf, read, hoisted in _loops(leaves, cpu, reader):
            loops = tuple(read.extents.values())
            own_work = read.work(hoisted)
            work += own_work
            computed = [fx[name] for name in nodes[leaf.name].fx if name in fx] if leaf.name in nodes else []
            if (writes := _written_again(group, read, hoisted, computed, reader)) is not None:
                again.append((writes, own_work))
            for value in read.computed(EXPENSIVE, hoisted):
                values.setdefault(value.call, {}).setdefault(loops, {})[value.key] = value
                own = candidates.setdefault(value.call, {})
                for node in computed:
                    if _lowered(node) in _FX_OPERATORS[value.call]:
                        own[node.name] = None
        found = [
            (
                item,
                beside,
                weights[call],
                _BY_LANES if cpu and divides_integers(fx[item.fx[0]]) else weights[call],
            )
            for call, by_loops in values.items()
            for item, beside in _matched(group, _distinct(by_loops), candidates.get(call, {}), fx, reader)
        ]
        if not work:
            continue
        work += sum(item.evaluations * (weight - counted) for item, _, counted, weight in found)
        works[group] = work
        made += [
            replace(item, part=item.part * own_work / work, whole=item.whole * own_work / work)
            for item, own_work in again
        ]
        left = {name for leaf in leaves if leaf.name in nodes for name in nodes[leaf.name].fx}
        for item, beside, _, weight in found:
            part, whole = (count * weight for count in (item.extra, item.evaluations))
            beyond = item.beyond if item.times >= LEAST_TIMES else 0
            if item.times >= LEAST_TIMES:
                # What else makes the value is repeated with it, and counted once.
                producer = _producer(item, fx, reader) & left
                part += (beside or len(producer)) * item.extra
                beyond *= 1 + sum(_lowered(fx[name]) not in _NONE for name in producer)
                left -= producer
            part, whole = min(1.0, part / work), min(1.0, whole / work)
            made.append(replace(item, part=part, whole=max(part, whole), beyond=beyond))
    return tuple(made), works


def divides_integers(node: FxNode) -> bool:
    """Whether it does, which no CPU has vectors for."""
    integers = node.meta is not None and node.meta.dtype.startswith(("int", "uint"))
    return integers and operator(node.target) in DIVIDE


def _written_again(
    group: str, read: LoopValues, hoisted: bool, computed: Sequence[FxNode], reader: IndexReader
) -> Evaluation | None:
    """Writes into parts of a tensor in a loop that makes each of the one before (``x[1:] *= y``, which is a
    slice of it, a product and a ``slice_scatter``): read in two places, each doubles all those before it."""
    writes = [node for node in computed if operator(node.target) in WRITES]
    if len(writes) < 2:
        return None
    elements = sum(reader.numel(node.meta.shape) or 0 for node in writes if node.meta is not None)
    points = [value.points for value in read.computed(_CHOSEN, hoisted)]
    others = sum(operator(node.target) not in VIEWS | WRITES for node in computed)
    if not elements or len(points) < DOUBLED * (len(writes) + others):
        return None
    # What torch makes of a write has no line, but what is written has.
    lines = {node.name: node.source for node in computed}
    behind = [node.source or lines.get("".join(node.inputs[1:2])) for node in writes]
    part = max(0.0, 1 - elements / sum(points))
    return Evaluation(
        operator=operator(writes[0].target),
        group=group,
        fx=tuple(node.name for node in writes),
        sources=tuple(dict.fromkeys(place for place in behind if place is not None)),
        elements=elements,
        evaluations=sum(points),
        occurrences=len(points),
        exact=False,
        part=part,
        whole=1.0,
        beyond=int(part * sum(count for _, count, _ in read.arithmetic(hoisted))),
    )


def operations(
    groups: Mapping[str, Sequence[SchedulerNode]], report: FusionReport, reader: IndexReader
) -> dict[str, tuple[int, int]]:
    """Name of a group of `report` -> the arithmetic operations of its loops, and those that the program asks
    for, without what is computed again. Groups whose loops are not all known are left out.

    `groups` and `reader` as for `evaluations`.
    """
    beyond = Counter[str]()
    for item in repeated(report.evaluations):
        beyond[item.group] += item.beyond
    counted = {}
    for group in report.groups:
        leaves = groups.get(group.name, ())
        made: dict[int, tuple[int, int]] = {}
        known = 0
        for _, read, hoisted in _loops(leaves, _on_cpu(group.device), reader):
            made.update((key, (points, needed)) for key, points, needed in read.arithmetic(hoisted))
            known += 1
        if known and known == len(leaves):
            whole, needed = (sum(each) for each in zip(*made.values(), strict=True)) if made else (0, 0)
            counted[group.name] = whole, max(0, needed - beyond[group.name])
    return counted


def _on_cpu(device: str | None) -> bool:
    return (device or "").startswith("cpu")


def _loops(
    leaves: Sequence[SchedulerNode], cpu: bool, reader: IndexReader
) -> Iterable[tuple[SchedulerNode, LoopValues, bool]]:
    """Those leaves of a group whose loops can be read, with their values, and whether what does not change in
    the innermost loops is taken out of them."""
    table: dict[Any, int] = {}
    hoisted = cpu or any(leaf.sizes is not None and leaf.sizes[1] for leaf in leaves)
    weights = _WEIGHTS if cpu else _GPU_WEIGHTS
    for leaf in leaves:
        if leaf.body is not None:
            rows = 0 if cpu else _rows(leaf)
            try:
                yield leaf, LoopValues(leaf.body, reader, table, weights, apart=cpu, rows=rows), hoisted
            except ValueError:
                continue


def _rows(leaf: SchedulerNode) -> int:
    """How many of a reduction's loops are around it; none where its body has other loops than its sizes."""
    outer, inner = leaf.sizes or ((), ())
    ranges = leaf.body.ranges if leaf.body is not None else ()
    return len(outer) if inner and len(ranges) == len(outer) + len(inner) else 0


def chain(name: str, fx: Mapping[str, FxNode]) -> tuple[str, ...]:
    """The node with those behind it that make one element of another, each the only reader of the one before.
    What is read behind the last, elsewhere or more than once, is its value: keeping that keeps all before."""
    left, made = dict(fx), [name]
    while name in left and len(left[name].users) == 1:
        # What is taken out is not met again: in a damaged graph nodes may read each other in a circle.
        node = left.pop(name)
        user = left.get(node.users[0])
        if user is None or user.meta is None or node.meta is None or user.meta.shape != node.meta.shape:
            break
        if _lowered(user) not in _PLAIN | EXPENSIVE:
            break
        name = user.name
        made.append(name)
    return tuple(made)


def is_heavy(node: FxNode) -> bool:
    """Whether its operator takes as long as several plain ones."""
    return _lowered(node) in EXPENSIVE - _LIGHT


def _lowered(node: FxNode) -> str:
    """The node's operator; of a power that is multiplied out, or a root, what is computed in its place
    (torch/_inductor/lowering.py: pow)."""
    name = operator(node.target)
    if name != "pow" or len(node.arguments) < 2:
        return name
    try:
        exponent = float(node.arguments[1])
    except ValueError:
        return name
    if exponent == 0.5:
        return "sqrt"
    return "mul" if exponent.is_integer() and abs(exponent) < _MULTIPLIED else name


def _producer(item: Evaluation, fx: Mapping[str, FxNode], reader: IndexReader) -> set[str]:
    """The plain operators of as many elements that an expensive one's result is made with: those behind the
    last that only one node reads."""

    def alike(name: str) -> bool:
        meta = fx[name].meta if name in fx else None
        plain = name in fx and _lowered(fx[name]) in _PLAIN | EXPENSIVE
        return plain and meta is not None and reader.numel(meta.shape) == item.elements

    end = item.fx[0]
    while end in fx and len(fx[end].users) == 1 and alike(fx[end].users[0]):
        end = fx[end].users[0]
    seen: set[str] = set()
    pending = [end]
    while pending:
        name = pending.pop()
        if name not in seen and alike(name):
            seen.add(name)
            pending.extend(fx[name].inputs)
    return {name for name in seen if _lowered(fx[name]) in _PLAIN}


def _distinct(by_loops: Mapping[tuple[int, ...], Mapping[int, Computed]]) -> tuple[Computed, ...]:
    """The values of a group. Loops that run as often, split in another way, become one loop of the kernel,
    and may then share values that don't look alike here: only those of the loops with most count."""
    most: dict[int, tuple[Computed, ...]] = {}
    for loops, values in by_loops.items():
        points = math.prod(loops)
        if len(values) > len(most.get(points, ())):
            most[points] = tuple(values.values())
    return tuple(value for values in most.values() for value in values)


def _matched(
    group: str,
    values: Sequence[Computed],
    names: Iterable[str],
    fx: Mapping[str, FxNode],
    reader: IndexReader,
) -> Iterable[tuple[Evaluation, float]]:
    """Values of one operator with their FX nodes, first by their elements' number, the rest together; and
    what is computed beside each of them under its masks."""
    sizes: dict[str, int] = {}
    for name in names:
        meta = fx[name].meta
        count = reader.numel(meta.shape) if meta is not None else None
        if count:
            sizes[name] = count
    if not sizes:
        return
    left, rest = dict(sizes), []
    alike = Counter(value.distinct for value in values)
    for value in values:
        same = [name for name, count in left.items() if count == value.distinct]
        if len(values) == 1 and len(left) == 1:
            same = list(left)
        if same and alike[value.distinct] <= sum(count == value.distinct for count in sizes.values()):
            del left[same[0]]
            yield _evaluation(group, (same[0],), (value,), sizes, fx), value.beside
        else:
            rest.append(value)
    if rest:
        points = sum(value.points for value in rest) or 1
        beside = sum(value.beside * value.points for value in rest) / points
        yield _evaluation(group, tuple(left or sizes), tuple(rest), sizes, fx), beside


def _evaluation(
    group: str,
    names: tuple[str, ...],
    values: tuple[Computed, ...],
    sizes: Mapping[str, int],
    fx: Mapping[str, FxNode],
) -> Evaluation:
    elements = sum(sizes[name] for name in names)
    sources: dict[str, SourceLocation] = {}
    for name in names:
        if (source := fx[name].source) is not None:
            sources.setdefault(str(source), source)
    return Evaluation(
        operator=_lowered(fx[names[0]]),
        group=group,
        fx=names,
        sources=tuple(sources.values()),
        elements=elements,
        evaluations=sum(value.points for value in values),
        occurrences=len(values),
        exact=all(value.exact for value in values),
        beyond=max(0, sum(min(value.points, value.distinct) for value in values if value.data) - elements),
    )
