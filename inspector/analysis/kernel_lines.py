"""Which FX nodes each line of a kernel's source computes, and by them which lines of the model.

A kernel's statements and the FX nodes that it stands for are two graphs of values. A statement may be a node
of its own operation and constants whose inputs are what its operands may be, and whose users are what its
users may be; what cannot hold is struck out until nothing changes. A node that Inductor lowers to several
operations (``var_mean``) may be any of them, where no node says exactly what the statement does. What stays
open keeps all its candidates, so a line is said to be of one node only where nothing else fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from inspector.frozen import dataclass
from inspector.model.code import Kernel, KernelCall
from inspector.model.fx import FxNode
from inspector.model.links import Linkage
from inspector.model.run import GraphArtifacts

from .cpp_statements import cpp_statements
from .dataflow import VIEW_OPERATORS, operator
from .kernel_statements import Statement, triton_statements

_SAME_VALUE = VIEW_OPERATORS | {"convert_element_type", "_to_copy", "split", "split_with_sizes", "copy_"}
"""Operators whose result is their first input's values, perhaps in another type."""

_NUMBERS = frozenset({"full", "full_like", "scalar_tensor", "iota", "arange", "empty"})
"""Operators that a kernel has as a number or an index, and not as an operation."""

_MEANT: dict[str, tuple[str, ...]] = {
    "add": ("add",), "sub": ("sub", "rsub"), "mul": ("mul", "pow", "square"), "div": ("div", "reciprocal"),
    "div_rn": ("div",), "floor_divide": ("div", "floor_divide"), "remainder": ("remainder", "fmod"),
    "and": ("bitwise_and", "logical_and"), "or": ("bitwise_or", "logical_or"), "xor": ("bitwise_xor",),
    "not": ("bitwise_not", "logical_not"), "neg": ("neg",),
    "lshift": ("bitwise_left_shift", "__lshift__"), "rshift": ("bitwise_right_shift", "__rshift__"),
    "maximum": ("maximum", "relu", "clamp_min", "clamp"),
    "minimum": ("minimum", "clamp_max", "clamp"), "where": ("where", "masked_fill"), "pow": ("pow",),
    "lt": ("lt",), "le": ("le",), "gt": ("gt",), "ge": ("ge",), "eq": ("eq",), "ne": ("ne",),
}  # fmt: skip
"""The ATen operators that an operation of a kernel may be; others have the same name on both sides."""

_UNARY = frozenset({
    "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh",
    "sinh", "cosh", "asin", "acos", "atan", "atan2", "erf", "erfc", "sigmoid", "abs", "floor", "ceil",
    "round", "trunc", "isnan", "isinf", "sign", "fmod", "lgamma", "hypot",
})  # fmt: skip
_EXACT = _UNARY.union(*_MEANT.values())

_ANY = "*"
_ARITHMETIC = frozenset({"add", "sub", "mul", "div"})
# (%x, 0.5)    [x, 1e-05]
_NUMBER = re.compile(r"^-?\d+(?:\.\d*)?(?:e[+-]?\d+)?$")


@dataclass(frozen=True, slots=True)
class KernelLines:
    """`nodes` by line of the kernel's source (from 1): the post-grad FX nodes that the line may compute.
    A line that is not in it (index arithmetic, masks) serves all of `every`."""

    nodes: Mapping[int, frozenset[str]]
    every: tuple[str, ...]

    def at(self, line: int) -> frozenset[str]:
        return self.nodes.get(line) or frozenset(self.every)


NO_LINES = KernelLines({}, ())


def lines_of(
    kernel: Kernel, artifacts: GraphArtifacts, linkage: Linkage, only: int | None = None
) -> KernelLines:
    """Over all launches of the kernel in its graph, or of that `only`: a kernel that several share stands for
    other FX nodes in each. Without FX nodes or statements nothing is in `nodes`."""
    fx, launches = artifacts.fx_after, artifacts.code.calls if artifacts.code is not None else ()
    links = {link.call: link for link in linkage.calls}
    calls = [call for call in launches if call.kernel == kernel.name and only in (None, call.index)]
    every = dict.fromkeys(name for call in calls for name in links[call.index].fx)
    lines: dict[int, set[str]] = {}
    if kernel.kind == "cpp":
        statements = cpp_statements(kernel.source)
    else:
        statements = triton_statements(kernel.source, kernel.function)
    if fx is not None:
        nodes = {node.name: node for node in fx.nodes}
        written = {buffer: links[call.index].fx for call in launches for buffer in call.outputs}
        for call in calls:
            own = [nodes[name] for name in links[call.index].fx if name in nodes]
            matching = _Matching(statements, own, nodes, _loaded(kernel, call, written))
            for line, names in matching.lines().items():
                lines.setdefault(line, set()).update(names)
    return KernelLines({line: frozenset(names) for line, names in lines.items()}, tuple(every))


def _loaded(
    kernel: Kernel, call: KernelCall, written: Mapping[str, tuple[str, ...]]
) -> dict[str, frozenset[str]]:
    """Parameter -> FX nodes whose value the launch hands it."""
    passed = [parameter.name for parameter in kernel.parameters if parameter.type != "constexpr"]
    result = {}
    for name, argument in zip(passed, call.arguments, strict=False):
        result[name] = frozenset((argument, *written.get(argument, ())))
    return result


_MOST_DEFINITIONS = 500
"""Of one name: each of them would be matched with each that reads it. A line that stands there more often is
damage, and then nothing is known of the name."""


class _Matching:
    def __init__(
        self,
        statements: Iterable[Statement],
        own: list[FxNode],
        nodes: Mapping[str, FxNode],
        loaded: Mapping[str, frozenset[str]],
    ) -> None:
        self._statements = list(statements)
        self._nodes = nodes
        self._shown: dict[str, str] = {}
        self._loaded = {
            name: frozenset(self._canonical(value) for value in values) for name, values in loaded.items()
        }
        passed_over = _SAME_VALUE | _NUMBERS
        real = [node for node in own if operator(node.target) not in passed_over and node.kind == "call"]
        self._inputs = {
            node.name: {
                value
                for name in node.inputs
                if (value := self._canonical(name)) not in nodes
                or operator(nodes[value].target) not in _NUMBERS
            }
            for node in real
        }
        self._called: dict[str, list[tuple[FxNode, list[float]]]] = {}
        for node in real:
            numbers = [float(text) for text in node.arguments[:2] if _NUMBER.match(text)]
            self._called.setdefault(operator(node.target), []).append((node, numbers))
        self._powers = {node.name for node in real if _product(node)}
        self._composite = {node.name for node in real if operator(node.target) not in _EXACT} | self._powers
        self._defined: dict[str, list[int]] = {}
        for index, statement in enumerate(self._statements):
            for target in statement.targets:
                self._defined.setdefault(target, []).append(index)
        for target in [name for name, indices in self._defined.items() if len(indices) > _MOST_DEFINITIONS]:
            del self._defined[target]
        self._fitting: dict[tuple[frozenset[str], tuple[float, ...]], set[str]] = {}
        self._candidates = {
            index: self._possible(statement.kinds, tuple(self._constants(statement)))
            for index, statement in enumerate(self._statements)
            if statement.kinds
        }
        self._readers: dict[int, set[int]] = {index: set() for index in self._candidates}
        self._makers: dict[int, set[int]] = {index: set() for index in self._candidates}
        self._operands = {index: self._reached(self._statements[index].names) for index in self._candidates}
        self._stored: set[int] = set()
        for index, statement in enumerate(self._statements):
            for producer in self._producers(statement.names):
                if index in self._candidates:
                    self._readers[producer].add(index)
                    self._makers[index].add(producer)
                if statement.stores:
                    self._stored.add(producer)
        self._settle(set(self._candidates))
        beside: set[int] = set()
        for index, names in self._candidates.items():
            if names - self._composite and names & self._composite:
                self._candidates[index] = names - self._composite
                beside |= {index} | self._readers[index] | self._makers[index]
        self._settle(beside)

    def lines(self) -> dict[int, frozenset[str]]:
        """The nodes of each line that computes, loads or stores."""
        result: dict[int, set[str]] = {}
        of_statement = [self._candidates.get(index, set()) - {_ANY} for index in range(len(self._statements))]
        readers: dict[str, set[int]] = {}
        for index in range(len(self._statements) - 1, -1, -1):
            statement = self._statements[index]
            names = of_statement[index]
            if index not in self._candidates:
                # Handed on: a value that was computed is of what computed it, a loaded one of what reads it.
                names = set().union(*(of_statement[each] for each in self._producers(statement.names)))
                later = set().union(*(readers.get(target, ()) for target in statement.targets))
                names = names or set().union(*(of_statement[each] for each in later))
                of_statement[index] = names
            for name in statement.names:
                readers.setdefault(name, set()).add(index)
            for line in range(statement.first, statement.last + 1):
                result.setdefault(line, set()).update(names)
        return {line: frozenset(names) for line, names in result.items() if names}

    # -- what the statements may be

    def _canonical(self, name: str) -> str:
        """The node whose values a chain of views, casts and parts of results shows."""
        start = name
        if start not in self._shown:
            while (
                (node := self._nodes.get(name)) is not None
                and node.inputs
                and (node.kind == "getitem" or operator(node.target) in _SAME_VALUE)
            ):
                name = node.inputs[0]
            self._shown[start] = name
        return self._shown[start]

    def _constants(self, statement: Statement) -> list[float]:
        """The numbers that a statement reads, those that were named before included."""
        numbers = list(statement.constants)
        for name in statement.names:
            for index in self._defined.get(name, ()):
                other = self._statements[index]
                if not other.kinds and not other.names and other.pointer is None:
                    numbers += other.constants
                elif not other.kinds and len(other.names) == 1 and other is not statement:
                    numbers += [
                        number
                        for origin in self._defined.get(other.names[0], ())
                        if not self._statements[origin].kinds and not self._statements[origin].names
                        for number in self._statements[origin].constants
                    ]
        return numbers

    def _possible(self, kinds: frozenset[str], numbers: tuple[float, ...]) -> set[str]:
        """By the operators that a statement may be of and the numbers it reads; many share them."""
        if (kinds, numbers) not in self._fitting:
            meant = {name for kind in kinds for name in _MEANT.get(kind, (kind,))}
            exact = {
                node.name
                for name in meant
                for node, own in self._called.get(name, ())
                if node.name in self._composite or _agrees(name, node, own, numbers)
            }
            several = self._composite if "mul" in kinds else self._composite - self._powers
            self._fitting[kinds, numbers] = (exact | several) or {_ANY}
        return self._fitting[kinds, numbers]

    # -- what cannot hold

    def _producers(self, names: Iterable[str]) -> set[int]:
        """The operations whose values the names have, through what only hands them on."""
        return self._reached(names, past_loads=True)[0]

    def _reached(self, names: Iterable[str], past_loads: bool = False) -> tuple[set[int], set[str]]:
        """The operations, and the FX values in memory, that names show through what only hands them on;
        `past_loads`: also what a load's place is worked out from, in place of what it loads."""
        computed: set[int] = set()
        loaded: set[str] = set()
        waiting = list(names)
        seen = set(waiting)
        while waiting:
            for index in self._defined.get(waiting.pop(), ()):
                statement = self._statements[index]
                if index in self._candidates:
                    computed.add(index)
                elif statement.pointer is not None and not statement.stores and not past_loads:
                    loaded |= self._loaded.get(statement.pointer, {_ANY})
                else:
                    waiting += (name for name in statement.names if name not in seen)
                    seen.update(statement.names)
        return computed, loaded

    def _settle(self, due: set[int]) -> None:
        """Of those that are due, in rounds, each with the operands as they were at its beginning; a statement
        is looked at again where one beside it has changed."""
        while due:
            before = dict(self._candidates)
            later: set[int] = set()
            for index, names in self._candidates.items():
                if index not in due or _ANY in names:
                    continue
                computed, loaded = self._operands[index]
                operands = loaded.union(*(before[each] for each in computed))
                fed = names & self._fed(index)
                kept = fed if _ANY in operands else self._reading(fed, operands)
                if kept != names:
                    # What nothing fits is not understood, and says nothing of its neighbours.
                    self._candidates[index] = kept or {_ANY}
                    later |= self._readers[index]
                    for each in self._makers[index]:
                        (due if each > index else later).add(each)
            due = later

    def _fed(self, index: int) -> set[str]:
        """The nodes that a statement may be by what its readers may be."""
        reading = set().union(*(self._candidates[each] for each in self._readers[index]))
        if index in self._stored or not self._readers[index] or _ANY in reading:
            return self._candidates[index]
        return set().union(*map(self._inputs.__getitem__, reading), reading & self._composite)

    def _reading(self, names: set[str], operands: set[str]) -> set[str]:
        """The nodes of these that a statement may be if its operands, all understood, may be those."""
        inputs, composite = self._inputs, names & self._composite
        kept = {name for name in names - composite if inputs[name] <= operands}
        kept.update(
            name
            for name in composite
            if not operands or name in operands or not inputs[name].isdisjoint(operands)
        )
        return kept


def _product(node: FxNode) -> bool:
    """Whether it is a power of several multiplications (torch/_inductor/lowering.py: pow_recursive)."""
    power = node.arguments[1] if operator(node.target) == "pow" and len(node.arguments) > 1 else ""
    return _NUMBER.match(power) is not None and abs(float(power)) > 2 and float(power).is_integer()


def _agrees(name: str, node: FxNode, own: list[float], numbers: Sequence[float]) -> bool:
    """Whether a statement with those numbers may be the node of that operator, by the node's own."""
    if name not in _ARITHMETIC:
        return True
    if not own:
        return not numbers or len(node.inputs) < 2
    return any(abs(number - own[0]) <= 1e-6 * max(abs(own[0]), 1e-30) for number in numbers) or (
        name == "div" and any(abs(number * own[0] - 1) <= 1e-6 for number in numbers)
    )
