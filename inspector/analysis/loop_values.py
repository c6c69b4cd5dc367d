"""The values that a loop body computes, alike ones once, and for how many of the loop's points each.

torch/_inductor/loop_body.py prints a body as calls of ``ops``; what a kernel really computes has common
subexpressions removed (torch/_inductor/codegen/common.py: CSEProxy), which is done here by numbering values.
A ``masked_subblock`` is computed where its mask holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from inspector.frozen import dataclass
from inspector.model.schedule import LoopBody

from .index_ranges import IndexReader, closure_of, names_in

#         erf = ops.erf(mul_1)    get_index_1 = self.get_index('index2')
_STATEMENT = re.compile(r"\s+(\w+) = (ops|self)\.(\w+)\((.*)\)$")
_FUNCTION = re.compile(r"\s+def (\w+)\(self, ops\):")
_RETURN = re.compile(r"\s+return (\w+)$")
_WORD = re.compile(r"([A-Za-z_]\w*)")
_QUOTED = re.compile(r"'([^']*)'")
_Statement = tuple[str, str, str, Sequence[str]]
"""Target, `ops` or `self`, call and its arguments, of which every second piece is a word; of a ``return`` no
target, and what is returned."""
_MOST_POINTS = 1 << 16
"""Combinations of loop variables that are enumerated for one condition."""
_MOST_VALUES = 1 << 16
"""Values of one body."""
_LONGEST = 50_000
"""Characters of what a statement is made of."""
_MOST_STEPS = 50_000
"""Statements that are gone through, those of a part as often as it is used."""
_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
_AND = ("and_", "logical_and", "bitwise_and")

_ARITHMETIC = frozenset({
    "add", "sub", "mul", "fma", "truediv", "div", "reciprocal", "square", "sqrt", "rsqrt", "pow", "maximum",
    "minimum", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sigmoid", "relu", "erf",
    "erfc", "erfinv", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh",
    "atanh", "lgamma", "digamma", "fmod", "remainder", "reduction", "scan",
})  # fmt: skip
_STEPS = frozenset({"reduction", "scan"})
_NO_WORK = frozenset({"constant", "index_expr", "store", "store_reduction", "output"})
# 128*p0 + p1
_TERM = re.compile(r"(?:\b(\d+)\*)?\b(p\d+)\b")
# (p1//7), (ModularIndexing(p2, 1, 48))
_DIVISION = re.compile(r"//|ModularIndexing\(")

Scope = tuple[int, ...]
"""Values that have to be true, the outermost first."""


@dataclass(frozen=True, slots=True)
class _Value:
    call: str
    operands: tuple[int, ...]
    text: str
    scope: Scope


@dataclass(frozen=True, slots=True)
class Computed:
    """One value: the call that makes it, and its number in the table of the group's values (`key`).

    `points` are the loop points at which it is computed, at most so many where not `exact`; `distinct` are
    those at which the variables that it is made of differ. `beside` is what else the block of its mask does
    at each of them, in plain operations, beyond one load; of several values in a block the first has it.
    `data`: something that is loaded goes into it.
    """

    call: str
    key: int
    points: int
    distinct: int
    exact: bool
    data: bool
    beside: float = 0.0


class LoopValues:
    """The distinct values of a body. Bodies that share a `table` give the same key to the same value, over
    loops of the same extents; in C++ (`apart`) not to what is computed under a mask, whose block is a
    function of its own (torch/_inductor/codegen/cpp.py: masked). `weights` has what takes longer than a
    plain operation, as `gather`, a load at an index that is data, `masked`, a block that is computed where a
    mask holds, and `division`, one in an index. The first `rows` loops are those of which a reduction in
    Triton has a tile at once: what depends on none of them is computed for all rows of a tile together.
    ValueError where an extent is not known, there is no body, or the body has no end."""

    def __init__(
        self,
        body: LoopBody,
        reader: IndexReader,
        table: dict[Any, int],
        weights: Mapping[str, float],
        apart: bool,
        rows: int = 0,
    ) -> None:
        self._table = table
        self._rows = rows
        self._weights = weights
        self._own = len(table) if apart else -1
        self._keys: list[int] = []
        self.extents: dict[str, int] = {}
        for name, size in body.ranges:
            extent = reader.size(size)
            if extent is None:
                raise ValueError(f"the extent of {name} is not known")
            self.extents[name] = extent
        self._reader = reader
        self._index = dict(body.indexing)
        self._values: list[_Value] = []
        self._numbers: dict[tuple[str, tuple[int, ...], str, Scope], int] = {}
        self._indirect: dict[str, int] = {}
        self._behind: list[frozenset[str]] = []
        self._held: dict[Scope, tuple[int, bool]] = {}
        self._functions = _functions(body.lines)
        self._steps = 0
        if "body" not in self._functions:
            raise ValueError("no body")
        self._run("body", ())

    def work(self, hoisted: bool) -> float:
        """All that the loop computes and loads, in plain operations."""
        return sum(
            self._weight(value) * self._times(number, hoisted)[0] for number, value in enumerate(self._values)
        )

    def computed(self, calls: frozenset[str], hoisted: bool) -> Iterable[Computed]:
        """Values made by one of `calls`. `hoisted`: what depends on none of the innermost loops' variables is
        computed outside of them."""
        told: set[Scope] = set()
        for number, value in enumerate(self._values):
            if value.call not in calls or self._by_constant(value):
                continue
            points, exact = self._times(number, hoisted)
            distinct = self._distinct(number)
            beside = 0.0 if value.scope[:1] in told else self._beside(value)
            told.add(value.scope[:1])
            data = self._on_data(number)
            yield Computed(value.call, self._key(number), points, distinct, exact, data, beside)

    def arithmetic(self, hoisted: bool) -> Iterable[tuple[int, int, int]]:
        """The key of each value that is arithmetic on data, how often it is computed, and how often it would
        have to be. What no load goes into, what becomes an index, comparisons and conversions are none; each
        step of a reduction is one."""
        indices = self._behind_any(self._indirect.values())
        for number, value in enumerate(self._values):
            if value.call in _ARITHMETIC and number not in indices and self._on_data(number):
                points = self._times(number, hoisted)[0]
                needed = points if value.call in _STEPS else min(points, self._distinct(number))
                yield self._key(number), points, needed

    def _distinct(self, number: int) -> int:
        """Points at which the variables that a value is made of differ."""
        return math.prod(self.extents[name] for name in self._variables(number))

    def _on_data(self, number: int) -> bool:
        return any(self._values[each].call.startswith("load") for each in self._behind_any([number]))

    def _behind_any(self, numbers: Iterable[int]) -> set[int]:
        """These values and all that they are made of."""
        behind, waiting = set(numbers), list(numbers)
        while waiting:
            more = set(self._values[waiting.pop()].operands) - behind
            behind |= more
            waiting += more
        return behind

    def _weight(self, value: _Value) -> float:
        """Of one value at one point, in plain operations."""
        if value.call in _NO_WORK:
            return 0.0
        if value.call == "get_index":
            return self._weights["division"] * len(_DIVISION.findall(value.text))
        if value.call == "load" and any(self._gathers(operand) for operand in value.operands):
            return self._weights["gather"]
        return 1.0 if self._by_constant(value) else self._weights.get(value.call, 1.0)

    def _beside(self, value: _Value) -> float:
        """What else is computed where the outermost of the value's masks holds, less one load."""
        others = (
            self._weight(other)
            for other in self._values
            if value.scope and other is not value and other.scope[:1] == value.scope[:1]
        )
        return max(sum(others) - 1.0, 0.0)

    # -- reading

    def _run(self, name: str, scope: Scope) -> int:
        # A part that holds itself, or twice one that holds another twice, and so on.
        if len(scope) > len(self._functions) or len(self._values) > _MOST_VALUES:
            raise ValueError(f"{name} has no end")
        names: dict[str, int] = {}
        result = -1
        lines = self._functions.get(name, ())
        self._steps += len(lines)
        if self._steps > _MOST_STEPS:
            raise ValueError(f"{name} has too many statements")
        for target, holder, call, arguments in lines:
            if not target:
                result = names.get(call, -1)
            elif holder == "self":
                names[target] = self._of_self(call, arguments, names, scope)
            else:
                names[target] = self._number(call, *_numbered(arguments, names), scope)
        return result

    def _of_self(self, call: str, arguments: Sequence[str], names: Mapping[str, int], scope: Scope) -> int:
        if call == "get_index":
            quoted = _QUOTED.search("".join(arguments))
            text = self._index.get(quoted[1], "") if quoted else ""
            return self._number("get_index", *_numbered(_pieces(text), self._indirect), ())
        words = [word for word in arguments[1::2] if word in names]
        if call.startswith("set_indirect") and words:
            self._indirect["indirect" + call.removeprefix("set_indirect")] = names[words[0]]
            return names[words[0]]
        if call.startswith("masked_subblock") and words:
            mask = names[words[0]]
            inner = self._run(call, (*scope, mask))
            return self._number("masked", (mask, inner) if inner >= 0 else (mask,), call, scope)
        return self._number(call, tuple(names[word] for word in words), "".join(arguments), scope)

    def _number(self, call: str, operands: tuple[int, ...], text: str, scope: Scope) -> int:
        for depth in range(len(scope) + 1):
            if (known := self._numbers.get((call, operands, text, scope[:depth]))) is not None:
                return known
        self._values.append(_Value(call, operands, text, scope))
        self._numbers[call, operands, text, scope] = len(self._values) - 1
        return len(self._values) - 1

    # -- asking

    def _times(self, number: int, hoisted: bool) -> tuple[int, bool]:
        """How often a value is computed, and whether that is known exactly."""
        scope = self._values[number].scope
        variables = self._variables(number).union(*(self._variables(mask) for mask in scope))
        points, exact = self._points(scope)
        for name in reversed(list(self.extents) if hoisted else []):
            if name in variables:
                break
            points //= self.extents[name] or 1
        rows = list(self.extents)[: self._rows]
        if variables and variables.isdisjoint(rows):
            points //= math.prod(self.extents[name] for name in rows) or 1
        return points, exact

    def _gathers(self, number: int) -> bool:
        """Whether an index is made of values."""
        value = self._values[number]
        return value.call == "get_index" and bool(value.operands)

    def _by_constant(self, value: _Value) -> bool:
        """A division by a number, as in a mean: a multiplication in all but name."""
        return (
            value.call in ("truediv", "div")
            and len(value.operands) == 2
            and self._values[value.operands[1]].call == "constant"
        )

    def _variables(self, number: int) -> frozenset[str]:
        """Loop variables behind a value."""
        # What a value is made of stands before it.
        for value in self._values[len(self._behind) : number + 1]:
            own = set(_WORD.findall(value.text)) & set(self.extents) if value.call == "get_index" else set()
            self._behind.append(frozenset(own).union(*(self._behind[operand] for operand in value.operands)))
        return self._behind[number]

    def _key(self, number: int) -> int:
        for value in self._values[len(self._keys) : number + 1]:
            operands = tuple(self._keys[operand] for operand in value.operands)
            scope = tuple(self._keys[mask] for mask in value.scope)
            scope = (*scope, self._own) if scope else ()
            own = (value.call, *self._place(value), operands, scope)
            self._keys.append(self._table.setdefault(own, len(self._table)))
        return self._keys[number]

    def _place(self, value: _Value) -> tuple[str, tuple[tuple[str, int], ...]]:
        """The text of a value, and the loops that it stands for. What goes through all loops in order is the
        same however they are split: ``128*p0 + p1``, where p1 ends at 128."""
        if value.call in _STEPS:
            return value.text, tuple(self.extents.items())
        if value.call != "get_index":
            return value.text, ()
        loops = {name: extent for name, extent in self.extents.items() if extent != 1}
        terms = {name: int(factor or 1) for factor, name in _TERM.findall(value.text)}
        step = 1
        for name, extent in reversed(loops.items()):
            if terms.get(name) != step:
                return value.text, tuple(self.extents.items())
            step *= extent
        plain = not _TERM.sub("", value.text).strip(" +") and len(terms) == len(loops)
        return ("in order", (("", step),)) if plain else (value.text, tuple(self.extents.items()))

    def _points(self, scope: Scope) -> tuple[int, bool]:
        """Loop points at which every mask of the scope holds, and whether that is known exactly."""
        if scope not in self._held:
            self._held[scope] = self._count(scope)
        return self._held[scope]

    def _count(self, scope: Scope) -> tuple[int, bool]:
        conditions, exact = [], True
        for mask in scope:
            for part in self._conjuncts(mask):
                condition = self._condition(part)
                if condition is None:
                    exact = False
                elif condition not in conditions:
                    conditions.append(condition)
        points = 1
        left = dict(self.extents)
        while conditions:
            cluster = [conditions.pop()]
            names = set(cluster[0].names)
            while more := [item for item in conditions if names & item.names]:
                conditions = [item for item in conditions if item not in more]
                cluster += more
                names.update(*(item.names for item in more))
            ordered = sorted(names)
            size = math.prod(self.extents[name] for name in ordered)
            for name in ordered:
                left.pop(name)
            if size > _MOST_POINTS:
                points, exact = points * size, False
                continue
            held = 0
            try:
                for point in product(*(range(self.extents[name]) for name in ordered)):
                    env = dict(zip(ordered, point, strict=True))
                    held += all(item.holds(env) for item in cluster)
            except ValueError:  # a power of a size that no loop has
                held, exact = size, False
            points *= held
        return points * math.prod(left.values()), exact

    def _conjuncts(self, number: int) -> Iterable[int]:
        waiting, seen = [number], {number}
        while waiting:
            value = self._values[number := waiting.pop()]
            if value.call in _AND:
                waiting += (operand for operand in reversed(value.operands) if operand not in seen)
                seen.update(value.operands)
            else:
                yield number

    def _condition(self, number: int) -> _Condition | None:
        value = self._values[number]
        if value.call not in _COMPARED or len(value.operands) != 2:
            return None
        sides = []
        for operand in value.operands:
            text = self._integer(operand)
            if text is None:
                return None
            sides.append(text)
        try:
            return _Condition(value.call, sides[0], sides[1], self._reader.symbols, frozenset(self.extents))
        except ValueError:
            return None

    def _integer(self, number: int) -> str | None:
        """The expression over loop variables that a value is."""
        value = self._values[number]
        if value.call == "constant":
            text = value.text.split(",")[0].strip()
            return text if re.fullmatch(r"-?\d+", text) else None
        if value.call == "index_expr" and len(value.operands) == 1 and "float" not in value.text:
            index = self._values[value.operands[0]]
            return index.text if index.call == "get_index" and not index.operands else None
        return None


class _Condition:
    """A comparison of two expressions over loop variables."""

    def __init__(
        self, call: str, left: str, right: str, symbols: Mapping[str, int], variables: frozenset[str]
    ) -> None:
        self.text = (call, left, right)
        self.names = (names_in(left) | names_in(right)) & variables
        self._compare = _COMPARED[call]
        self._sides = closure_of(left, symbols), closure_of(right, symbols)
        if (names_in(left) | names_in(right)) - variables - set(symbols):
            raise ValueError("a name without a value")

    def holds(self, env: dict[str, int]) -> bool:
        return self._compare(self._sides[0](env), self._sides[1](env))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Condition) and self.text == other.text

    __hash__ = None  # type: ignore[assignment]


def _numbered(pieces: Sequence[str], names: Mapping[str, int]) -> tuple[tuple[int, ...], str]:
    """The values that a text's words name, and the text with a sign in place of each; `pieces` as in
    `_Statement`."""
    operands = tuple(names[word] for word in pieces[1::2] if word in names)
    text = "".join("%" if place % 2 and piece in names else piece for place, piece in enumerate(pieces))
    return operands, text


def _pieces(text: str) -> Sequence[str]:
    if len(text) > _LONGEST:
        raise ValueError(f"a statement of {len(text):,} characters")
    return _WORD.split(text)


def _functions(lines: Iterable[str]) -> dict[str, list[_Statement]]:
    functions: dict[str, list[_Statement]] = {}
    own: list[_Statement] | None = None
    for line in lines:
        if (match := _FUNCTION.match(line)) is not None:
            own = functions.setdefault(match[1], [])
        elif own is not None:
            if (match := _STATEMENT.match(line)) is not None:
                target, holder, call, arguments = match.groups()
                own.append((target, holder, call, _pieces(arguments)))
            elif (match := _RETURN.match(line)) is not None:
                own.append(("", "", match[1], ()))
    return functions
