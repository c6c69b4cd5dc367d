"""The loop nests of a generated C++ kernel: how big they are, vectorised or not.

From the text that torch/_inductor/codegen/cpp.py writes: one nest for each fused group, ``at::vec::`` in a
vectorised body.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from inspector.frozen import dataclass

# for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(4096L); x0+=static_cast<int64_t>(16L))
# Each part has an end, so that a line with a thousand heads of loops is read once and not a thousand times.
_LOOP = re.compile(
    r"for\s*\(\s*(?:int64_t|long)\s+(?P<name>\w+)\s*=(?P<start>[^;]{0,500});\s*\w+\s*<=?\s*(?P<bound>[^;]{1,500});"
    r"[^)]{0,500}?\+=\s*(?P<step>[^)]{0,500}\)?)"
)
# 4096L; on macOS and Windows 4096LL (torch/utils/_sympy/printers.py: CppPrinter._print_Integer)
_NUMBER = re.compile(r"(?<![\w.])(\d+)L{0,2}(?![\w.])")
_HEAVY = re.compile(
    r"\b(std::(exp2?|expm1|log\w*|tanh|erf\w*|sin|cos|tan|asin|acos|atan2?|sinh|cosh|pow|lgamma|cbrt)|"
    r"calc_\w+|randn_cpu|normalized_rand_cpu)\s*\(|\.(exp\w*|log\w*|tanh|erf\w*|sin|cos|tan|pow|lgamma)\(|decltype\(\w+\)\(1\)"
)
_LANES = re.compile(r"\.(erfinv|i0e?|digamma|igammac?)\(|\btmpbuf_out\[\w+\] = ((?:std::)?\w+)\(")
"""Functions of Vectorized<float> that call scalar code for each lane (ATen/cpu/vec/vec512/vec512_float.h),
and those that Inductor calls for each lane itself (torch/_inductor/codegen/cpp.py: CppVecOverrides)."""

# auto tmp32 = remainder_integral(tmp6, tmp28);
_ASSIGNED = re.compile(r"\bauto (tmp\d+) =")
_DIVIDES = re.compile(r" (?:remainder|floor_divide)_integral\(")
_NAMES = re.compile(r"\btmp\d+\b")
DIVISION = "integer division"
"""No CPU divides vectors of integers: ATen's do so lane by lane (torch/csrc/inductor/cpp_prefix.h)."""

_MOST_LINES = 500_000
"""Of a kernel's source: the longest of 2,275 in programs by other hands has 20,382."""
LONG_LAST = (
    "let a long dimension lie last in these tensors ([4, n] rather than [n, 4]): vectors are filled along "
    "the last one"
)
GAIN = 4.0
"""What vectors of 256 bit win on float32 in practice: 3 to 6 of 8 lanes."""


@dataclass(frozen=True, slots=True)
class LoopNest:
    """`line` is the first loop's, counted from 1 in the kernel's source. `points` is how often its innermost
    bodies run, None where an extent is symbolic. `heavy` counts calls of transcendental functions in the
    body, `statements` its assignments. `lanes` names a function of a vectorised body whose vector form goes
    lane by lane, empty where there is none; `divisions` how many of integers it has."""

    line: int
    points: int | None
    vectorised: bool
    heavy: int
    statements: int
    atomic: bool
    lanes: str
    text: str
    divisions: int = 0
    filled: tuple[int, int] | None = None
    """Of a loop that goes on by vectors and ends within the first: how many elements it has, of how many that
    a step holds. Such a load is masked, and costs what a full one does or more; or all of it is a tail, which
    goes one by one."""

    innermost: int | None = None
    """Rounds of the last loop that has none inside; None where that is symbolic."""

    @property
    def scalar(self) -> bool:
        """Whether it computes one element at a time."""
        return not self.vectorised or bool(self.lanes)


def has_vectors(source: str) -> bool:
    """Whether generated C++ has vectors of torch's (aten/src/ATen/cpu/vec)."""
    return "at::vec::" in source


@lru_cache(maxsize=32)
def loop_nests(source: str) -> tuple[LoopNest, ...]:
    """The outermost loops in order, each with all that is inside it."""
    lines = _lines(source)
    nests = []
    number = 0
    while number < len(lines):
        line = lines[number]
        if "for" in line and _LOOP.search(line):
            last = _end_of_block(lines, number)
            nests.append(_nest("\n".join(lines[number : last + 1]), number + 1))
            number = last
        number += 1
    return tuple(nests)


def counted_nests(source: str, points: int | None) -> tuple[LoopNest, ...]:
    """The same with the points of each, of a kernel of so many: what others leave of them is of those over
    symbolic sizes, each as much."""
    nests = loop_nests(source)
    known = [nest.points for nest in nests if nest.points is not None]
    if points is None or len(known) == len(nests):
        return nests
    unknown = len(nests) - len(known)
    rest = max(points - sum(known), unknown) // unknown
    return tuple(nest if nest.points is not None else replace(nest, points=rest) for nest in nests)


def starts_threads(source: str) -> bool:
    """Whether a generated kernel shares its work between threads: loops by OpenMP, and by ATen the templates
    of attention and grouped products (torch/_inductor/codegen/cpp_flex_attention_template.py)."""
    return "#pragma omp" in source or "at::parallel_for" in source


@lru_cache(maxsize=32)
def inner_regions(source: str) -> int:
    """How often a kernel starts its threads inside of loops, ``#pragma omp parallel``: once for each round of
    those around it; 0 for regions that hold all of their loops. A loop of unknown length counts once."""
    regions, around = 0, list[int]()
    for line, opened, ended in _loops(_lines(source)):
        if "#pragma omp parallel" in line and around:
            regions += math.prod(around)
        if opened is not None:
            around.append(_rounds(opened))
        del around[len(around) - ended :]
    return regions


def _loops(lines: Iterable[str], named: str = "") -> Iterator[tuple[str, re.Match[str] | None, int]]:
    """Each line, with the loop that begins at it, of those whose variables' names begin so, and how many of
    those around it end with it."""
    depth, outside = 0, list[int]()
    for line in lines:
        opened = _LOOP.search(line) if "for" in line else None
        if opened is not None and not opened["name"].startswith(named):
            opened = None
        if opened is not None:
            outside.append(depth)
        depth += line.count("{") - line.count("}")
        ended = 0
        while opened is None and ended < len(outside) and "}" in line and depth <= outside[-1 - ended]:
            ended += 1
        del outside[len(outside) - ended :]
        yield line, opened, ended


def _lines(source: str) -> list[str]:
    """None of a text that is no kernel: whoever looks at it would go through it again and again."""
    return source.split("\n") if source.count("\n") < _MOST_LINES else []


def _rounds(loop: re.Match[str]) -> int:
    """How often a loop's body runs; once for one of unknown length."""
    bound = _bound(loop)
    return 1 if bound is None else math.ceil(bound / max([1, *map(int, _NUMBER.findall(loop["step"]))]))


def _end_of_block(lines: list[str], first: int) -> int:
    """The line that closes the braces opened after `first`; `first` itself for a loop without braces."""
    depth, opened = 0, False
    for number in range(first, len(lines)):
        depth += lines[number].count("{") - lines[number].count("}")
        opened = opened or "{" in lines[number]
        if opened and depth <= 0:
            return number
        if not opened and number > first and ";" in lines[number]:
            return number
    return len(lines) - 1


def _divisions(text: str) -> int:
    """How many of vectors of integers a loop's body has; what is divided once for many elements is none. The
    last elements of a loop have the same once more."""
    vectors, divided = set[str](), set[str]()
    starts = [*_ASSIGNED.finditer(text)]
    for match, following in zip(starts, [*(later.start() for later in starts[1:]), len(text)], strict=True):
        value = text[match.end() : following]
        if has_vectors(value) or not vectors.isdisjoint(_NAMES.findall(value)):
            vectors.add(match[1])
            if _DIVIDES.match(value):
                divided.add(match[1])
    return len(divided)


def _bound(loop: re.Match[str]) -> int | None:
    """Where a loop ends; None for what is symbolic."""
    numbers = [int(number) for number in _NUMBER.findall(loop["bound"])]
    return max(numbers) if numbers and "ks" not in loop["bound"] else None


_Around = tuple[int | None, list[int | None]]
"""Rounds of a loop, and the points of those in it."""


def _points(text: str) -> int | None:
    """How often the innermost bodies of a nest run, those of loops that follow one another together."""
    around: list[_Around] = [(1, [])]
    for _, opened, ended in _loops(text.split("\n"), "x"):
        if opened is not None:
            start, end = _NUMBER.findall(opened["start"]), _bound(opened)
            around.append((None if end is None else max(end - int(start[0] if start else 0), 0), []))
        for _ in range(ended):
            _closed(around)
    while len(around) > 1:
        _closed(around)
    return _sum(around[0][1])


def _closed(around: list[_Around]) -> None:
    """The innermost loop ends: its points are some of the loop's around it."""
    rounds, inner = around.pop()
    each = _sum(inner) if inner else 1
    around[-1][1].append(None if rounds is None or each is None else rounds * each)


def _sum(points: list[int | None]) -> int | None:
    known = [count for count in points if count is not None]
    return sum(known) if len(known) == len(points) else None


def _apart(text: str, name: str) -> bool:
    """Whether a loop reads what does not lie side by side along it: that is short in a dimension which is not
    the last, as where channels are laid last for a convolution."""
    # loadu(in_ptr0 + static_cast<int64_t>(x2 + 36864L*x1 + 36864L*x1_inner), ...
    far = re.compile(rf"\*{name}(?:_inner|_tail)?\b")
    return any("in_ptr" in line and far.search(line) is not None for line in text.split("\n"))


def _nest(text: str, line: int) -> LoopNest:
    filled = last = None
    short = ""
    for match in _LOOP.finditer(text):
        bound, steps = _bound(match), _NUMBER.findall(match["step"])
        last = match if match["name"].startswith("x") else last
        own = match["name"].startswith("x") and _NUMBER.findall(match["start"]) == ["0"]
        if own and bound and steps and bound < int(steps[0]):
            filled = (bound, int(steps[0]))
            short = match["name"]
    if filled is not None and _apart(text, short):
        filled = None
    vectorised = has_vectors(text)
    divisions = _divisions(text) if vectorised else 0
    lanes = _LANES.search(text) if vectorised else None
    return LoopNest(
        line=line,
        points=_points(text),
        vectorised=vectorised,
        heavy=len(_HEAVY.findall(text)),
        statements=len(re.findall(r"\bauto tmp\d+ =", text)),
        atomic="atomic_add" in text,
        lanes=lanes[1] or lanes[2] if lanes else DIVISION if divisions else "",
        text=text,
        divisions=divisions,
        filled=filled,
        innermost=_bound(last) if last is not None else None,
    )
