"""Kinds of faults apart from those of `first`, after which replay was corrected: planted to see what those
corrections are worth for what nobody had in mind.
"""

# ruff: noqa: E501

from __future__ import annotations

import re

from .patterns import (
    CONSTANT,
    CPP_CONSTANT,
    CPP_EPSILON,
    EPSILON,
    INDEX,
    STORE,
    Change,
    T,
    each,
    loaded,
    masked,
    scaled,
    stored,
    triton_loaded,
    triton_stored,
)

_COUNT = r"(static_cast<float>\()([1-9]\d+\.0)(\))"


def _one_more(match: re.Match[str]) -> str:
    return f"{match[1]}{float(match[2]) + 1}{match[3]}"


CPP: list[Change] = [
    ("neighbour read", r"(loadu\(in_ptr\d \+ static_cast<int64_t>\()(x\d)(\))", r"\1\2 - (\2 == 32)\3"),
    ("neighbour read", r"(in_ptr\d\[static_cast<int64_t>\()(x\d)(\)\])", r"\1\2 - (\2 > 2)\3"),
    ("axes exchanged", r"(?<=int64_t>\()(x\d) \+ (\d+)L\*(x\d)(?=\))", r"\3 + \2L*\1"),
    stored("all 2e-5 off", "x * 1.00002f"),
    stored("all 3e-4 off", "x * 1.0003f"),
    ("count off by one", _COUNT, _one_more),
    ("ten times the epsilon", CPP_EPSILON, scaled(10.0)),
    (
        "stripes 0.5 % off",
        rf"{T}\.store\(((?:in_)?out_ptr\d) \+ {INDEX}[^;]*;",
        lambda m: f"{m[0]} if (({m[3]}) % 48 == 0) {m[2]}[{m[3]}] = {m[2]}[{m[3]}] * 1.005f;",
    ),
    (
        "first block not stored",
        rf"(?<![\w.])({T}\.store\((?:in_)?out_ptr\d \+ {INDEX}[^;]*;)",
        r"if ((\3) != 0) { \1 }",
    ),
    (
        "float16 accumulator",
        r"(?<=_vec = )(tmp_acc\w+_vec) \+ (tmp\w+)(?=;)",
        each(r"\1 + \2", "static_cast<float>(c10::Half(x))"),
    ),
    (
        "float16 accumulator",
        r"(?<== )(tmp_acc\d+) \+ (tmp\w+)(?=;)",
        r"static_cast<float>(c10::Half(\1 + \2))",
    ),
    (
        "float16 between",
        rf"(?<=auto )(tmp\d+) = {T} ([*+]) {T};",
        r"\1 = " + each(r"\2 \3 \4", "static_cast<float>(c10::Half(x))") + ";",
    ),
    ("terms 0.1 % off", r"(tmp_acc\w+) = \1 \+ (tmp\w+);", r"\1 = \1 + \2 * decltype(\2)(1.001f);"),
    ("sign kept in a square", rf"(= ){T} \* \2;", r"\1\2 * \2.abs();"),
    ("sign kept in a square", rf"float\({T} \* \1\)", r"float(\1 * std::abs(\1))"),
    ("last accumulator lost", r"(tmp_acc\d) = \1 \+ (at::vec::vec_reduce_all[^;]*);", r"\1 = \2 * 0.999f;"),
    ("constant's last digit", CPP_CONSTANT, scaled(1.000001)),
    ("equal for unequal", rf"{T} == {T}", r"\1 != \2"),
    ("index one too high", r"(argm\w+_combine_vec<[^;]*, )(x\d)(\b[^;]*;)", r"\1\2 + 1\3"),
    ("no turn of the signs", rf"~{T};", r"\1;"),
]

CPP_VALUES: list[Change] = [
    *loaded("infinity is the largest", "std::isinf(x) ? std::copysign(3.4028235e38f, x) : x"),
    *loaded("NaN is zero", "x != x ? 0.0f : x"),
    *loaded("below -8 is -8", "x < -8.0f ? -8.0f : x"),
    *loaded("zero is tiny", "x == 0.0f ? 1e-3f : x"),
    *loaded("zero's sign lost", "x == 0.0f ? 0.0f : x"),
    *loaded("one is more", "x == 1.0f ? 1.0001f : x"),
    stored("large ones 1 % off", "std::abs(x) > 100.0f ? x * 1.01f : x"),
    stored("small ones are zero", "std::abs(x) < 1e-5f ? 0.0f : x"),
    stored("infinity is NaN", "std::isinf(x) ? x - x : x"),
    stored("NaN is infinity", "x != x ? INFINITY : x"),
    (
        "16 bits of an integer",
        r"auto (tmp\d+) = (in_ptr\d\[[^;]*\]);",
        r"auto \1 = static_cast<std::decay_t<decltype(\2)>>(static_cast<int16_t>(\2));",
    ),
    (
        "16 bits of an integer",
        r"= at::vec::VectorizedN<int64_t,2>::loadu\(([^;]*)\);",
        r"= [](auto v) { int64_t b[decltype(v)::size()]; v.store(b); for (auto& x : b) x = (int16_t)x; return decltype(v)::loadu(b); }(at::vec::VectorizedN<int64_t,2>::loadu(\1));",
    ),
    (
        "8 bits of an integer",
        r"= at::vec::VectorizedN<int64_t,2>::loadu\(([^;]*)\);",
        r"= [](auto v) { int64_t b[decltype(v)::size()]; v.store(b); for (auto& x : b) x = (int8_t)x; return decltype(v)::loadu(b); }(at::vec::VectorizedN<int64_t,2>::loadu(\1));",
    ),
]

TRITON: list[Change] = [
    ("neighbour read", r"tl\.load\((in_ptr\d) \+ \((x\d)\)", r"tl.load(\1 + (\2 - (\2 > 2))"),
    triton_stored("all 2e-5 off", "@ * 1.00002"),
    triton_stored("all 3e-4 off", "@ * 1.0003"),
    ("count off by one", r"(tmp\d+ = |, )([1-9]\d+\.0)(\n|, tl)", _one_more),
    ("ten times the epsilon", EPSILON, scaled(10.0)),
    (
        "stripes 0.5 % off",
        STORE,
        r"tl.store(\1 + (\2), tl.where((\2) % 48 == 0, \3 * 1.005, \3), \4)" + "\n",
    ),
    ("first block not stored", STORE, masked("(@) >= 16")),
    ("middle program", STORE, masked("(@) * 0 + tl.program_id(0) != tl.num_programs(0) // 2")),
    ("one program in five", STORE, masked("((@) * 0 + tl.program_id(0)) % 5 != 3")),
    (
        "float16 accumulator",
        r"(tmp\d+) = (_tmp\d+) \+ (tmp\d+)",
        r"\1 = (\2 + \3).to(tl.float16).to(tl.float32)",
    ),
    ("float16 sum", r"tl\.sum\((tmp\d+), 1\)", r"tl.sum(\1.to(tl.float16).to(tl.float32), 1)"),
    ("float16 between", rf"(= ){T} ([*+]) {T}\n", r"\1(\2 \3 \4).to(tl.float16).to(tl.float32)" + "\n"),
    ("terms 0.1 % off", r"tl\.sum\((\w+), 1\)", r"tl.sum(\1 * 1.001, 1)"),
    ("sign kept in a square", rf"(= ){T} \* \2\n", r"\1\2 * tl_math.abs(\2)" + "\n"),
    ("first turn lost", r"tl\.range\(0, r0_numel, R0_BLOCK\)", "tl.range(R0_BLOCK, r0_numel, R0_BLOCK)"),
    ("last turn lost", r"tl\.range\(0, r0_numel, R0_BLOCK\)", "tl.range(0, r0_numel - R0_BLOCK, R0_BLOCK)"),
    ("mask of a sum lost", r"(_tmp\d+) = tl\.where\([^,]*, (tmp\d+), \1\)", r"\1 = \2"),
    ("constant's last digit", CONSTANT, scaled(1.000001)),
    ("equal for unequal", rf"{T} == {T}\b", r"\1 != \2"),
    ("scan from the end", r"(tl\.associative_scan\(.*)\)\n", r"\1, reverse=True)" + "\n"),
    ("sorted without the last", r"(sort_with_index\(tmp\d+, tmp\d+, )(\w+)", r"\1(\2 - 1)"),
    ("bfloat16 operands", r"tl\.dot\(a, b", "tl.dot(a.to(tl.bfloat16).to(a.dtype), b"),
    ("accumulator 0.1 % off", r"(acc \+= tl\.dot\(.*\))\n", r"\1 * 1.001" + "\n"),
    (
        "atomic of the even ones",
        r"tl\.atomic_add\((.*), (tmp\d+), (\w+)",
        r"tl.atomic_add(\1, tl.where(xindex % 2 == 0, \2, 0), \3",
    ),
    ("no turn of the signs", rf"= ~{T}\n", r"= \1" + "\n"),
]

TRITON_VALUES: list[Change] = [
    triton_loaded(
        "infinity is the largest",
        "tl.where(tl_math.abs(@) == float('inf'), tl.where(@ > 0, 3.4028235e38, -3.4028235e38), @)",
    ),
    triton_loaded("NaN is zero", "tl.where(@ != @, 0.0, @)"),
    triton_loaded("below -8 is -8", "tl.where(@ < -8.0, -8.0, @)"),
    triton_loaded("zero is tiny", "tl.where(@ == 0.0, 1e-3, @)"),
    triton_loaded("zero's sign lost", "tl.where(@ == 0.0, 0.0, @)"),
    triton_loaded("one is more", "tl.where(@ == 1.0, 1.0001, @)"),
    triton_loaded("16 bits of an integer", "@.to(tl.int16).to(@.dtype)"),
    triton_stored("large ones 1 % off", "tl.where(tl_math.abs(@) > 100.0, @ * 1.01, @)"),
    triton_stored("small ones are zero", "tl.where(tl_math.abs(@) < 1e-5, 0.0, @)"),
    triton_stored("infinity is NaN", "tl.where(tl_math.abs(@) == float('inf'), float('nan'), @)"),
    triton_stored("NaN is infinity", "tl.where(@ != @, float('inf'), @)"),
]

USER: list[Change] = [
    ("neighbour read", r"tl\.load\((\w+) \+ (\w+), mask", r"tl.load(\1 + \2 - (\2 > 2), mask"),
    (
        "middle program",
        r"(tl\.store\(\w+ \+ (\w+), \w+, mask=)(\w+)",
        r"\1\3 & (\2 * 0 + tl.program_id(0) != 1)",
    ),
    (
        "NaN is zero",
        r"(\n +)(\w+) = (tl\.load\(.*\))\n",
        r"\1\2 = \3; \2 = tl.where(\2 != \2, 0.0, \2)" + "\n",
    ),
    (
        "below -8 is -8",
        r"(\n +)(\w+) = (tl\.load\(.*\))\n",
        r"\1\2 = \3; \2 = tl.where(\2 < -8.0, -8.0, \2)" + "\n",
    ),
    ("negated comparison", r"(\w+) > (\d\.\d+)", r"((\1 <= \2) == 0)"),
    ("one element", r"(tl\.store\(\w+ \+ (\w+), )(\w+)(, mask)", r"\1tl.where(\2 == n - 1, \3 + 1e-3, \3)\4"),
]
