"""How much of a buffer an index expression touches.

torch/_inductor/dependencies.py: MemoryDep prints the address in elements as an expression over loop
variables (``100*c0 + c1``), with their extents. An affine sum is counted exactly; the parts of it that
are not (ModularIndexing, ``//``, Min) are enumerated while they are small, and bounded otherwise. Texts are
parsed, never executed.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, product

from inspector.model.fusion import Region
from inspector.model.source import Size

_MOST_POINTS = 4096
"""Loop points that are enumerated for one part of an expression."""

_LONGEST = 2000
"""Characters of an expression that is still parsed."""

Env = dict[str, int]
_Closure = Callable[[Env], int]
_Interval = tuple[int, int]

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    # Sizes such as (s0/8) divide exactly.
    ast.Div: operator.floordiv,
}

_FUNCTIONS: dict[str, Callable[..., int]] = {
    "ModularIndexing": lambda base, divisor, modulus: base // divisor % modulus,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "CeilDiv": lambda base, divisor: -(-base // divisor),
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "Min": min,
    "Max": max,
    "Identity": lambda value: value,
    "Abs": abs,
    "abs": abs,
}
"""torch/utils/_sympy/functions.py, as sympy prints them."""


class UnknownSymbol(Exception):
    """A name without a value: its text is the name."""


class IndexReader:
    """Evaluates sizes and index expressions of one graph. `symbols` are the hints of symbolic sizes."""

    def __init__(self, symbols: Mapping[str, int] | None = None) -> None:
        self.symbols: Env = dict(symbols or {})
        self._sizes: dict[Size, int | None] = {}
        self._regions: dict[tuple[str, tuple[tuple[str, Size], ...]], Region | None] = {}

    def size(self, size: Size) -> int | None:
        """The value of an extent; None where a symbol in it has no hint or it is not understood."""
        if isinstance(size, int):
            return size
        if size not in self._sizes:
            try:
                self._sizes[size] = _evaluate(_parse(size), self.symbols)
            except (UnknownSymbol, ValueError, ArithmeticError):
                self._sizes[size] = None
        return self._sizes[size]

    def numel(self, sizes: Sequence[Size]) -> int | None:
        """The product of extents, 1 for a scalar."""
        result = 1
        for size in sizes:
            value = self.size(size)
            if value is None:
                return None
            result *= value
        return result

    def region(self, index: str, ranges: tuple[tuple[str, Size], ...]) -> Region | None:
        """The elements that `index` visits while its variables run through `ranges`.

        None where an extent has no value, or where nothing can be said (an indirect index without
        any loop variable). Variables that do not occur, as in a broadcast, do not count.
        """
        key = (index, ranges)
        if key not in self._regions:
            self._regions[key] = self._region(index, ranges)
        return self._regions[key]

    def _region(self, index: str, ranges: tuple[tuple[str, Size], ...]) -> Region | None:
        extents: Env = {}
        for name, size in ranges:
            value = self.size(size)
            if value is None:
                return None
            extents[name] = value
        points = math.prod(extents.values())
        if points <= 0:
            return Region(0, 0, -1)
        try:
            linear = _Linear(extents, self.symbols)
            linear.add(_parse(index), 1)
            return linear.region()
        except UnknownSymbol as missing:
            # tmp0 is a value loaded from another buffer: it may point anywhere, once per loop point.
            return Region(points, 0, points - 1, False) if str(missing).startswith("tmp") else None
        except (ValueError, ArithmeticError):
            return Region(points, 0, points - 1, False)


class _Linear:
    """A sum of integer multiples of loop variables, of parts that are not affine, and a constant."""

    def __init__(self, extents: Env, symbols: Env) -> None:
        self.extents = extents
        self.symbols = symbols
        self.constant = 0
        self.variables: dict[str, int] = {}
        self.parts: list[tuple[ast.expr, int]] = []

    def add(self, node: ast.expr, factor: int) -> None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            self.add(node.left, factor)
            self.add(node.right, factor if isinstance(node.op, ast.Add) else -factor)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            self.add(node.operand, -factor)
        elif isinstance(node, ast.Name) and node.id in self.extents:
            if self.extents[node.id] > 1:
                self.variables[node.id] = self.variables.get(node.id, 0) + factor
        elif not (names := self._variables_of(node)):
            self.constant += factor * _evaluate(node, self.symbols)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            if not self._variables_of(node.left):
                self.add(node.right, factor * _evaluate(node.left, self.symbols))
            elif not self._variables_of(node.right):
                self.add(node.left, factor * _evaluate(node.right, self.symbols))
            else:
                self.parts.append((node, factor))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Identity":
            self.add(node.args[0], factor)
        else:
            for name in names:
                if name not in self.extents:
                    raise UnknownSymbol(name)
            self.parts.append((node, factor))

    def _variables_of(self, node: ast.expr) -> set[str]:
        """Names in the expression that are no symbol with a value."""
        return {name for name in _names(node) if name in self.extents or name not in self.symbols}

    def region(self) -> Region:
        pieces: list[_Piece] = []
        for names, parts in self._clusters():
            pieces.append(self._piece(names, parts))
        return _combine(pieces, self.constant)

    def _clusters(self) -> Iterator[tuple[set[str], list[tuple[ast.expr, int]]]]:
        """Variables that only together decide an address, with the non-affine parts that tie them."""
        clusters: list[tuple[set[str], list[tuple[ast.expr, int]]]] = [
            ({name}, []) for name, factor in self.variables.items() if factor
        ]
        for part in self.parts:
            names = self._variables_of(part[0]) & set(self.extents)
            tied = [cluster for cluster in clusters if cluster[0] & names]
            clusters = [cluster for cluster in clusters if not cluster[0] & names]
            merged: tuple[set[str], list[tuple[ast.expr, int]]] = (set(names), [part])
            for cluster in tied:
                merged[0].update(cluster[0])
                merged[1].extend(cluster[1])
            clusters.append(merged)
        yield from clusters

    def _piece(self, names: set[str], parts: list[tuple[ast.expr, int]]) -> _Piece:
        if not parts:
            (name,) = names
            factor, count = self.variables[name], self.extents[name]
            first, last = 0, factor * (count - 1)
            return _Piece(count, min(first, last), max(first, last), abs(factor), abs(factor), True)
        ordered = sorted(names)
        if math.prod(self.extents[name] for name in ordered) > _MOST_POINTS:
            return self._bounded(ordered, parts)
        closures = [(_compile(node, self.symbols), factor) for node, factor in parts]
        factors = [(name, self.variables.get(name, 0)) for name in ordered]
        values: set[int] = set()
        env: Env = {}
        for point in product(*(range(self.extents[name]) for name in ordered)):
            env.update(zip(ordered, point, strict=True))
            values.add(
                sum(factor * closure(env) for closure, factor in closures)
                + sum(factor * env[name] for name, factor in factors)
            )
        visited = sorted(values)
        gaps = {b - a for a, b in pairwise(visited)} or {1}
        return _Piece(len(visited), visited[0], visited[-1], min(gaps), max(gaps), True)

    def _bounded(self, names: list[str], parts: list[tuple[ast.expr, int]]) -> _Piece:
        env = {name: (0, self.extents[name] - 1) for name in names}
        low = high = 0
        for node, factor in parts:
            a, b = _interval(node, env, self.symbols)
            low, high = low + min(a * factor, b * factor), high + max(a * factor, b * factor)
        for name in names:
            last = self.variables.get(name, 0) * (self.extents[name] - 1)
            low, high = low + min(0, last), high + max(0, last)
        count = min(high - low + 1, math.prod(self.extents[name] for name in names))
        return _Piece(count, low, high, 1, 1, False)


class _Piece:
    """Values that a part of the sum takes: how many, between what, with what gaps between neighbours."""

    __slots__ = ("count", "exact", "high", "largest", "low", "smallest")

    def __init__(self, count: int, low: int, high: int, smallest: int, largest: int, exact: bool) -> None:
        self.count = count
        self.low = low
        self.high = high
        self.smallest = smallest
        self.largest = largest
        self.exact = exact


def _combine(pieces: list[_Piece], constant: int) -> Region:
    """All sums of one value of each piece.

    Sorted by their gaps, each piece either steps over all that the finer ones reach (the counts
    multiply) or moves a gapless stretch by no more than its length (it stays gapless).
    """
    count, low, high, exact = 1, constant, constant, True
    for piece in sorted(pieces, key=lambda piece: piece.smallest):
        span = high - low
        exact = exact and piece.exact
        if piece.smallest > span:
            count *= piece.count
        elif count == span + 1 and piece.largest <= span + 1:
            count = span + 1 + piece.high - piece.low
        else:
            count = min(count * piece.count, span + 1 + piece.high - piece.low)
            exact = False
        low, high = low + piece.low, high + piece.high
    return Region(count, low, high, exact)


def union(regions: Sequence[Region], numel: int | None) -> Region:
    """The elements that any of the regions holds, at most `numel`.

    Equal regions count once and gapless ones are merged; what else overlaps is bounded by the sum.
    """
    distinct = list(dict.fromkeys(regions))
    if len(distinct) == 1:
        only = distinct[0]
        return (
            only
            if numel is None or only.elements <= numel
            else Region(numel, only.low, only.high, only.exact)
        )
    low, high = min(r.low for r in distinct), max(r.high for r in distinct)
    elements, exact = 0, True
    stretches = sorted((r.low, r.high) for r in distinct if r.dense and r.exact)
    reach: int | None = None
    for first, last in stretches:
        start = first if reach is None or first > reach else reach + 1
        elements += max(0, last - start + 1)
        reach = last if reach is None else max(reach, last)
    for region in distinct:
        if not (region.dense and region.exact):
            inside = any(first <= region.low and region.high <= last for first, last in stretches)
            if not (inside and region.exact):
                elements += region.elements
                exact = False
    if numel is not None and elements >= numel:
        return Region(numel, low, high, exact)
    return Region(elements, low, high, exact)


# -- expressions


@lru_cache(4096)
def _parse(text: str) -> ast.expr:
    if len(text) > _LONGEST:
        raise ValueError("too long")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError("not an expression") from error


def _names(node: ast.expr) -> set[str]:
    return {
        inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and inner.id not in _FUNCTIONS
    }


def names_in(text: str) -> set[str]:
    """Names of variables and symbols in an expression. ValueError where it is none."""
    return _names(_parse(text))


def closure_of(text: str, symbols: Mapping[str, int]) -> Callable[[Env], int]:
    """A function of the variables' values. ValueError for anything that is not integer arithmetic."""
    return _compile(_parse(text), dict(symbols))


def _evaluate(node: ast.expr, env: Env) -> int:
    return _compile(node, {})(env)


def _compile(node: ast.expr, constants: Env) -> _Closure:
    """A function of the variables' values. ValueError for anything that is not integer arithmetic."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        value = int(node.value)
        return lambda _env: value
    if isinstance(node, ast.Name):
        name = node.id
        if name in constants:
            known = constants[name]
            return lambda _env: known
        return lambda env: _lookup(env, name)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _compile(node.operand, constants)
        return lambda env: -inner(env)
    if isinstance(node, ast.BinOp):
        left, right = _compile(node.left, constants), _compile(node.right, constants)
        if isinstance(node.op, ast.Pow):
            return lambda env: _power(left(env), right(env))
        function = _BINARY.get(type(node.op))
        if function is not None:
            chosen = function
            return lambda env: chosen(left(env), right(env))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        called = _FUNCTIONS.get(node.func.id)
        if called is not None:
            named = called
            arguments = [_compile(argument, constants) for argument in node.args]
            return lambda env: named(*(argument(env) for argument in arguments))
    raise ValueError(f"not understood: {ast.unparse(node)[:60]}")


def _lookup(env: Env, name: str) -> int:
    try:
        return env[name]
    except KeyError:
        raise UnknownSymbol(name) from None


def _power(base: int, exponent: int) -> int:
    if not 0 <= exponent <= 8:
        raise ValueError("no such power of a size")
    return int(base**exponent)


def _interval(node: ast.expr, env: dict[str, _Interval], symbols: Env) -> _Interval:
    """Bounds of an expression's value. ValueError where its form gives none."""
    if isinstance(node, ast.Name) and node.id in env:
        return env[node.id]
    if not _names(node) & set(env):
        value = _evaluate(node, symbols)
        return value, value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        low, high = _interval(node.operand, env, symbols)
        return -high, -low
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        bounds = [_interval(argument, env, symbols) for argument in node.args]
        if node.func.id == "ModularIndexing" and bounds[2][0] == bounds[2][1]:
            (low, high), (divisor, _), (modulus, _) = bounds
            if low // divisor >= 0 and high // divisor < modulus:
                return low // divisor, high // divisor
            return 0, modulus - 1
        if node.func.id in ("Min", "Max"):
            pick = _FUNCTIONS[node.func.id]
            return pick(*(low for low, _ in bounds)), pick(*(high for _, high in bounds))
        if node.func.id == "Identity":
            return bounds[0]
        if node.func.id in ("FloorDiv", "CleanDiv"):
            return _corners(operator.floordiv, bounds[0], bounds[1])
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)):
        left, right = _interval(node.left, env, symbols), _interval(node.right, env, symbols)
        return _corners(_BINARY[type(node.op)], left, right)
    raise ValueError("no bounds")


def _corners(function: Callable[[int, int], int], left: _Interval, right: _Interval) -> _Interval:
    """Bounds of a function that is monotone in each argument."""
    if function is operator.floordiv and right[0] <= 0 <= right[1]:
        raise ValueError("division by what may be zero")
    values = [function(a, b) for a in left for b in right]
    return min(values), max(values)
