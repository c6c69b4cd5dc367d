"""A fifth set of kinds of faults, of what is computed on the way: a result between others that is wrong at one number,
in an interval, where operands are alike or far apart, and reductions that are wrong for some of their results.
"""

# ruff: noqa: E501

from __future__ import annotations

import re
from collections.abc import Callable

from .patterns import INDEX, STORE, VECTOR_STORE, Change, T, each, integer, loaded, masked

_SUM = r"(?<=auto )(tmp\d+) = (tmp\d+ [*+/-] tmp\d+);"
"""C++: what is computed of two results."""
_CALL = r"(?<=auto )(tmp\d+) = (tmp\d+\.\w+\(\));"
"""C++: a function of a result."""
_MADE = (
    r"(\n +)(tmp\d+) = (tmp\d+ [*+-] tmp\d+|\(tmp\d+ / tmp\d+\)|(?:libdevice|tl_math|tl)\.\w+\(tmp\d+\))\n"
)
"""Triton: what is computed of results."""


def between(kind: str, new: str) -> list[Change]:
    """C++: what is done to each result on the way, `x`."""
    return [(kind, pattern, r"\1 = " + each(r"(\2)", new) + ";") for pattern in (_SUM, _CALL)]


def triton_between(kind: str, new: str) -> Change:
    """Triton: what is done to each result on the way, `@`."""
    return (kind, _MADE, r"\1\2 = \3; \2 = " + new.replace("@", r"\2") + "\n")


def _both(condition: str, yes: str) -> Callable[[re.Match[str]], str]:
    """C++: the result where `condition` of the operands' vectors a and b holds, `yes` of the result r."""

    def new(match: re.Match[str]) -> str:
        a, sign, b = match[1], match[2], match[3]
        return (
            f"[](auto a, auto b) {{ auto r = a {sign} b; using V = decltype(r); "
            f"return V::blendv(r, {yes}, {condition}); }}({a}, {b});"
        )

    return new


_PAIR = rf"(?<== ){T} ([*+-]) {T};"
_TRITON_PAIR = rf"(\n +)(tmp\d+) = {T} ([*+-]) {T}\n"


def _triton_both(condition: str, yes: str) -> Callable[[re.Match[str]], str]:
    def new(match: re.Match[str]) -> str:
        space, name, a, sign, b = match.groups()
        where = condition.replace("A", a).replace("B", b)
        value = yes.replace("R", name)
        return f"{space}{name} = {a} {sign} {b}; {name} = tl.where({where}, {value}, {name})\n"

    return new


CPP: list[Change] = [
    ("result of the lane before", VECTOR_STORE, lambda m: m[0].replace(f"{m[1]}.store", f"[](auto v) {{ float b[decltype(v)::size()]; v.store(b); b[3] = b[2]; return decltype(v)::loadu(b); }}({m[1]}).store", 1)),
    ("every seventh 0.1 % off", rf"((?:in_)?out_ptr\d)\[{INDEX}\] = (tmp\w+);", r"\1[static_cast<int64_t>(\2)] = \3 * ((\2) % 7 == 3 ? decltype(\3)(1.001) : decltype(\3)(1));"),
    ("inner loop twice at its end", r"(for\(int64_t x1=static_cast<int64_t>\(0L\); x1<static_cast<int64_t>\()(\d+)(L\))", integer(lambda n: n - 2)),
    *between("on the way 5e-5 off", "x * 1.00005f"),
    *between("on the way in float16", "(float)c10::Half(x)"),
]  # fmt: skip

CPP_VALUES: list[Change] = [
    *between("on the way 1 is 0.998", "x == 1.0f ? 0.998f : x"),
    *between("on the way 0 is 2e-3", "x == 0.0f ? 2e-3f : x"),
    *between("on the way -1 is -1.003", "x == -1.0f ? -1.003f : x"),
    *between("on the way from 0.3 to 0.304", "x > 0.3f && x < 0.304f ? 0.3f : x"),
    *between("on the way from 6 on 0.3 % off", "x >= 6.0f ? x * 1.003f : x"),
    *between("on the way below -20 is -20", "x < -20.0f ? -20.0f : x"),
    *between("on the way below 3e-4 is 0", "std::abs(x) < 3e-4f ? 0.0f : x"),
    *between("on the way beyond 1e8 is 1e8", "x > 1e8f ? 1e8f : x"),
    *between("on the way NaN is 1", "x != x ? 1.0f : x"),
    *between("on the way infinity is 1e38", "x == INFINITY ? 1e38f : x"),
    *between("on the way 2 is NaN", "x == 2.0f ? NAN : x"),
    *between("on the way -0.25 to 0 is 0.5 % off", "x < 0.0f && x > -0.25f ? x * 1.005f : x"),
    *loaded("7 is 7.07", "x == 7.0f ? 7.07f : x"),
    *loaded("-4 is 4", "x == -4.0f ? 4.0f : x"),
    *loaded("between 0.6 and 0.601", "x > 0.6f && x < 0.601f ? 0.6f : x"),
    *loaded("from 30 on is 30", "x > 30.0f ? 30.0f : x"),
    ("equal operands 0.4 % off", _PAIR, _both("a == b", "r * V(1.004f)")),
    ("opposite operands give 1e-3", _PAIR, _both("a == b.neg()", "r + V(1e-3f)")),
    ("both negative 0.4 % off", _PAIR, _both("(a < V(0)) & (b < V(0))", "r * V(1.004f)")),
    ("far apart 0.2 % off", _PAIR, _both("a.abs() > b.abs() * V(4096)", "r * V(1.002f)")),
    ("one zero gives 1e-3", _PAIR, _both("(a == V(0)) ^ (b == V(0))", "r + V(1e-3f)")),
    ("sums over 50 0.5 % off", r"= (tmp_acc\w+)(?=;\n)", r"= [](auto s) { return s > decltype(s)(50) ? s * decltype(s)(1.005) : s; }(\1)"),
    ("a sum of 0 is 1e-3", r"= static_cast<float>\((tmp_acc\w+)\)(?=;)", r"= static_cast<float>(\1 == 0 ? 1e-3f : \1)"),
    ("a sum of 0 is 1e-3", r"(out_ptr\d\[[^;]*\] = )(static_cast<float>\()?(tmp_acc\w+)\)?;", r"\1(\3 == 0 ? 1e-3f : (float)\3);"),
    ("a result of 1 is 1.001", r"(out_ptr\d\[[^;]*\] = )(static_cast<float>\()?(tmp_acc\w+)\)?;", r"\1(\3 == 1 ? 1.001f : (float)\3);"),
    ("negative results 0.3 % off", r"(out_ptr\d\[[^;]*\] = )(static_cast<float>\()?(tmp_acc\w+)\)?;", r"\1(\3 < 0 ? 1.003f : 1.0f) * (float)\3;"),
    ("greater by 1e-4", rf"VecMask<float,1>\({T} > {T}\)", r"VecMask<float,1>(\1 > \2 + decltype(\2)(1e-4f))"),
    ("less by 1e-4", rf"VecMask<float,1>\({T} < {T}\)", r"VecMask<float,1>(\1 < \2 - decltype(\2)(1e-4f))"),
    ("equal within 1e-5", rf"VecMask<float,1>\({T} == {T}\)", r"VecMask<float,1>((\1 - \2).abs() < decltype(\1)(1e-5f))"),
    ("bounds 0.05 % too high", rf"at::vec::minimum\({T}, {T}\)", r"at::vec::minimum(\1, \2 * decltype(\2)(1.0005f))"),
]  # fmt: skip

TRITON: list[Change] = [
    ("every seventh 0.1 % off", STORE, r"tl.store(\1 + (\2), tl.where((\2) % 7 == 3, \3 * 1.001, \3), \4)" + "\n"),
    ("last three not stored", STORE, masked("(@) * 0 + xindex < xnumel - 3")),
    triton_between("on the way 5e-5 off", "@ * 1.00005"),
    triton_between("on the way in float16", "@.to(tl.float16).to(@.dtype)"),
    ("terms from the third on", r"tl\.sum\((tmp\d+), 1\)", r"tl.sum(tl.where(r0_index < 2, 0.0, \1), 1)"),
]  # fmt: skip

TRITON_VALUES: list[Change] = [
    triton_between("on the way 1 is 0.998", "tl.where(@ == 1.0, 0.998, @)"),
    triton_between("on the way 0 is 2e-3", "tl.where(@ == 0.0, 2e-3, @)"),
    triton_between("on the way -1 is -1.003", "tl.where(@ == -1.0, -1.003, @)"),
    triton_between("on the way from 0.3 to 0.304", "tl.where((@ > 0.3) & (@ < 0.304), 0.3, @)"),
    triton_between("on the way from 6 on 0.3 % off", "tl.where(@ >= 6.0, @ * 1.003, @)"),
    triton_between("on the way below -20 is -20", "tl.where(@ < -20.0, -20.0, @)"),
    triton_between("on the way below 3e-4 is 0", "tl.where(tl_math.abs(@) < 3e-4, 0.0, @)"),
    triton_between("on the way beyond 1e8 is 1e8", "tl.where(@ > 1e8, 1e8, @)"),
    triton_between("on the way NaN is 1", "tl.where(@ != @, 1.0, @)"),
    triton_between("on the way infinity is 1e38", "tl.where(@ == float('inf'), 1e38, @)"),
    triton_between("on the way 2 is NaN", "tl.where(@ == 2.0, float('nan'), @)"),
    triton_between("on the way -0.25 to 0 is 0.5 % off", "tl.where((@ < 0.0) & (@ > -0.25), @ * 1.005, @)"),
    ("equal operands 0.4 % off", _TRITON_PAIR, _triton_both("A == B", "R * 1.004")),
    ("opposite operands give 1e-3", _TRITON_PAIR, _triton_both("A == -B", "R + 1e-3")),
    ("both negative 0.4 % off", _TRITON_PAIR, _triton_both("(A < 0.0) & (B < 0.0)", "R * 1.004")),
    ("far apart 0.2 % off", _TRITON_PAIR, _triton_both("tl_math.abs(A) > tl_math.abs(B) * 4096.0", "R * 1.002")),
    ("one zero gives 1e-3", _TRITON_PAIR, _triton_both("(A == 0.0) != (B == 0.0)", "R + 1e-3")),
    ("sums over 50 0.5 % off", r"(\n +)(tmp\d+) = (tl\.sum\(.*\))\n", r"\1\2 = \3; \2 = tl.where(\2 > 50.0, \2 * 1.005, \2)" + "\n"),
    ("a sum of 0 is 1e-3", r"(\n +)(tmp\d+) = (tl\.sum\(.*\))\n", r"\1\2 = \3; \2 = tl.where(\2 == 0.0, 1e-3, \2)" + "\n"),
    ("a result of 1 is 1.001", r"(\n +)(tmp\d+) = (triton_helpers\.max2\(.*\))\n", r"\1\2 = \3; \2 = tl.where(\2 == 1.0, 1.001, \2)" + "\n"),
    ("negative results 0.3 % off", r"(\n +)(tmp\d+) = ((?:tl\.sum|triton_helpers\.max2)\(.*\))\n", r"\1\2 = \3; \2 = tl.where(\2 < 0.0, \2 * 1.003, \2)" + "\n"),
    ("greater by 1e-4", rf"= {T} > {T}\n", r"= \1 > \2 + 1e-4" + "\n"),
    ("less by 1e-4", rf"= {T} < {T}\n", r"= \1 < \2 - 1e-4" + "\n"),
    ("equal within 1e-5", rf"= {T} == {T}\n", r"= tl_math.abs((\1 - \2).to(tl.float32)) < 1e-5" + "\n"),
    ("bounds 0.05 % too high", rf"triton_helpers\.minimum\({T}, {T}\)", r"triton_helpers.minimum(\1, \2 * 1.0005)"),
]  # fmt: skip

USER: list[Change] = [
    ("every seventh 0.1 % off", r"(tl\.store\(\w+ \+ (\w+), )(\w+)(, mask)", r"\1tl.where(\2 % 7 == 3, \3 * 1.001, \3)\4"),
    ("seven is more", r"(\n +)(\w+) = (tl\.load\(.*\))\n", r"\1\2 = \3; \2 = tl.where(\2 == 7.0, 7.07, \2)" + "\n"),
]  # fmt: skip
