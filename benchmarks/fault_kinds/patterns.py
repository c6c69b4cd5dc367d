"""What the sets of kinds are written with: patterns of generated C++ and Triton, and what takes a match's place."""

# ruff: noqa: E501

from __future__ import annotations

import re
from collections.abc import Callable

Change = tuple[str, str, str | Callable[[re.Match[str]], str]]
"""A kind of fault, a pattern, and what takes a match's place."""

T = r"(tmp\w*)"
INDEX = r"static_cast<int64_t>\(((?:[^;()]|\([^;()]*\))*)\)"
"""An address in C++, with brackets at most one deep."""
CPP_CONSTANT = r"(static_cast<(?:float|double)>\()(-?\d+\.\d+(?:e-?\d+)?)(\))"
CPP_EPSILON = r"(static_cast<float>\()(\d\.?\d*e-\d+)(\))"
CONSTANT = r"(tmp\d+ = |, )(-?\d+\.\d+(?:e-?\d+)?)(\n|, tl)"
EPSILON = r"(tmp\d+ = |, )(\d\.?\d*e-\d+)(\n|, tl)"
VECTOR_STORE = rf"{T}\.store\(((?:in_)?out_ptr\d) \+ {INDEX}[^;]*;"
STORE = r"tl\.store\(((?:in_)?out_ptr\d+) \+ \((.*)\), (tmp\d+), (.*)\)\n"

_LOADED = r"auto (tmp\d+) = (at::vec::Vectorized<float>::loadu\([^;]*\));"
_LOADED_ONE = r"auto (tmp\d+) = (in_ptr\d\[[^;]*\]);"
_INT64 = r"at::vec::VectorizedN<int64_t,2>::loadu"
_STORED = rf"(?<![\w.]){T}\.store\((?=(?:in_)?out_ptr)"


def scaled(factor: float) -> Callable[[re.Match[str]], str]:
    return lambda match: f"{match[1]}{float(match[2]) * factor!r}{match[3]}"


def integer(new: Callable[[int], int]) -> Callable[[re.Match[str]], str]:
    """Another integer for the one between two parts of the text."""
    return lambda match: f"{match[1]}{new(int(match[2]))}{match[3]}"


less = integer(lambda n: n - 1)


def each(argument: str, function: str) -> str:
    """C++: a function of `x` for each number of a vector."""
    return (
        "[](auto v) { float b[decltype(v)::size()]; v.store(b); for (auto& x : b) x = "
        f"{function}; return decltype(v)::loadu(b); }}({argument})"
    )


def loaded(kind: str, new: str) -> list[Change]:
    """C++: what is done to each number that is read, `x`."""
    scalar = f"auto \\1 = [](auto x) {{ return {new}; }}(\\2);"
    return [(kind, _LOADED, "auto \\1 = " + each("\\2", new) + ";"), (kind, _LOADED_ONE, scalar)]


def loaded_integer(kind: str, new: str) -> list[Change]:
    """C++: what is done to each integer that is read, `x`."""
    vector = each(_INT64 + "(\\1)", new).replace("float b", "int64_t b")
    scalar = f"[](auto x) {{ if constexpr (std::is_integral_v<decltype(x)>) x = {new}; return x; }}(\\2)"
    return [(kind, rf"= {_INT64}\(([^;]*)\);", f"= {vector};"), (kind, _LOADED_ONE, f"auto \\1 = {scalar};")]


def stored(kind: str, new: str) -> Change:
    return (kind, _STORED, each(r"\1", new) + ".store(")


def function(kind: str, name: str, new: str) -> list[Change]:
    """C++: another function of `x` for `x.name()` and `std::name(x)`."""
    return [
        (kind, rf"{T}\.{name}\(\)", each(r"\1", new)),
        (kind, rf"std::{name}\({T}\)", f"[](float x) -> float {{ return {new}; }}(" + r"\1)"),
    ]


def cut(bits: str) -> str:
    """C++: the float without its last bits, as rounding towards zero leaves it."""
    return f"[](float f) {{ uint32_t u; std::memcpy(&u, &f, 4); u &= {bits}u; std::memcpy(&f, &u, 4); return f; }}(x)"


def triton_loaded(kind: str, new: str) -> Change:
    """Triton: what is done to each number that is read, `@`."""
    return (
        kind,
        r"(\n +)(tmp\d+) = (tl\.load\(in_(?:out_)?ptr\d+ .*\))(\.to\(tl\.float32\))?\n",
        r"\1\2 = \3\4; \2 = " + new.replace("@", r"\2") + "\n",
    )


def triton_stored(kind: str, new: str) -> Change:
    return (kind, STORE, r"tl.store(\1 + (\2), " + new.replace("@", r"\3") + r", \4)" + "\n")


def triton_function(kind: str, name: str, new: str) -> Change:
    """Triton: another function of `@`, whose own result is `#`."""
    pattern = rf"((?:libdevice|tl_math|tl)\.{name}\({T}\))"
    return (kind, pattern, new.replace("@", r"\2").replace("#", r"\1"))


def masked(condition: str) -> Callable[[re.Match[str]], str]:
    """Triton: what is stored only where a condition holds, `@` the place."""

    def new(match: re.Match[str]) -> str:
        mask = "" if match[4] == "None" else f"({match[4]}) & "
        where = condition.replace("@", match[2])
        return f"tl.store({match[1]} + ({match[2]}), {match[3]}, {mask}({where}))\n"

    return new
