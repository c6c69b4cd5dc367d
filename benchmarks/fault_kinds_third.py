"""A third set of kinds of faults, written before replay was tried on any of them and after the corrections that
`fault_kinds` and `fault_kinds_unseen` led to. The same form, the same oracle.
"""

# ruff: noqa: E501

from __future__ import annotations

import re

from fault_kinds import _STORE, INDEX, Change, T, _each
from fault_kinds_unseen import _loaded, _masked, _stored, _triton_loaded, _triton_stored

_VECTOR_STORE = rf"{T}\.store\(((?:in_)?out_ptr\d) \+ {INDEX}[^;]*;"
_LANES = r"[](auto v) { float b[decltype(v)::size()]; v.store(b); std::swap(b[4], b[5]); return decltype(v)::loadu(b); }"


def _cut(bits: str) -> str:
    """C++: the float without its last bits, as rounding towards zero leaves it."""
    return f"[](float f) {{ uint32_t u; std::memcpy(&u, &f, 4); u &= {bits}u; std::memcpy(&f, &u, 4); return f; }}(x)"


def _half(match: re.Match[str]) -> str:
    return f"{match[1]}{int(match[2]) // 2}{match[3]}"


def _function(kind: str, name: str, each: str) -> list[Change]:
    """C++: another function of `x` for `x.name()` and `std::name(x)`."""
    return [
        (kind, rf"{T}\.{name}\(\)", _each(r"\1", each)),
        (kind, rf"std::{name}\({T}\)", f"[](float x) -> float {{ return {each}; }}(" + r"\1)"),
    ]


CPP: list[Change] = [
    ("accumulator not reset", r"\bfloat (tmp_acc\d+) = 0;", r"static float \1 = 0;"),
    ("accumulator starts at 0.01", r"\bfloat (tmp_acc\d+) = 0;", r"float \1 = 0.01f;"),
    ("accumulator starts at 0.01", r"Vectorized<float> (tmp_acc\d+_vec) = at::vec::Vectorized<float>\(0\);", r"Vectorized<float> \1 = at::vec::Vectorized<float>(0.01f);"),
    ("half of the loop", r"(x\d<static_cast<int64_t>\()(\d+)(L\))", _half),
    ("stride of one row", r"(loadu\(in_ptr\d \+ static_cast<int64_t>\([^;]*?)(\d+L\*(x\d))(?=[ )])", r"\1(\2 - (\3 == 7))"),
    ("stride of one row", r"(in_ptr\d\[static_cast<int64_t>\([^;\]]*?)(\d+L\*(x\d))(?=[ )])", r"\1(\2 - (\3 == 7))"),
    ("8-bit index", r"(in_ptr\d\[static_cast<)int64_t(>\()", r"\1uint8_t\2"),
    ("8-bit index", r"(loadu\(in_ptr\d \+ static_cast<)int64_t(>\()", r"\1uint8_t\2"),
    ("inputs exchanged", r"\bin_ptr0(?= \+|\[)", "in_ptr1"),
    ("outputs exchanged", r"\bout_ptr1(?= \+|\[)", "out_ptr0"),
    ("neighbours exchanged", r"(at::vec::Vectorized<float>::loadu\([^;]*\))(?=;)", _LANES + r"(\1)"),
    ("neighbours exchanged", r"(in_ptr\d\[static_cast<int64_t>\()(x\d)(\)\])", r"\1\2 ^ 1\3"),
    ("one vector 1 % off", _VECTOR_STORE, lambda m: m[0].replace(f"{m[1]}.store", f"({m[1]} * decltype({m[1]})(({m[3]}) / 16 == 2 ? 1.01f : 1.0f)).store", 1)),
    ("stored one further", r"(\bout_ptr\d\[)(static_cast<int64_t>\((?:[^;()]|\([^;()]*\))*\))(\] = )", r"\1\2 + 1\3"),
    *_loaded("input in bfloat16", "(float)c10::BFloat16(x)"),
    *_loaded("input in float16", "(float)c10::Half(x)"),
    _stored("cut to 10 bits", _cut("0xFFFFE000")),
    _stored("cut to 7 bits", _cut("0xFFFF0000")),
    ("cut, not rounded", rf"at::vec::convert<at::Half>\({T}\)", "at::vec::convert<at::Half>(" + _each(r"\1", _cut("0xFFFFE000")) + ")"),
    ("cut, not rounded", rf"at::vec::convert<at::BFloat16>\({T}\)", "at::vec::convert<at::BFloat16>(" + _each(r"\1", _cut("0xFFFF0000")) + ")"),
    ("cut, not rounded", rf"c10::convert<at::Half>\({T}\)", r"c10::convert<at::Half>([](float x) { return " + _cut("0xFFFFE000") + r"; }(\1))"),
    ("cut, not rounded", rf"c10::convert<at::BFloat16>\({T}\)", r"c10::convert<at::BFloat16>([](float x) { return " + _cut("0xFFFF0000") + r"; }(\1))"),
    ("reciprocal in float16", rf"(?<== ){T} / {T};", r"\1 * " + _each(r"\2", "(float)c10::Half(1.0f / x)") + ";"),
    *_function("exp 1e-4 off above 1", "exp", "std::exp(x) * (x > 1.0f ? 1.0001f : 1.0f)"),
    ("second condition lost", rf"(?<== ){T} & {T};", r"\1;"),
    ("second condition lost", rf"{T} && {T}", r"\1"),
    ("first maximum only", rf"at::vec::maximum\({T}, {T}\)", r"\1"),
    ("first minimum only", rf"at::vec::minimum\({T}, {T}\)", r"\2"),
    ("last element skipped", r"(x\d_tail<static_cast<int64_t>\()(\d+)(L\))", lambda m: f"{m[1]}{int(m[2]) - 1}{m[3]}"),
]  # fmt: skip

CPP_VALUES: list[Change] = [
    ("identity -1e4", r"-std::numeric_limits<float>::infinity\(\)", "-1e4f"),
    ("identity 1e4", r"(?<!-)std::numeric_limits<float>::infinity\(\)", "1e4f"),
    *_function("halves away from zero", "round", "std::round(x)"),
    *_function("halves away from zero", "nearbyint", "std::round(x)"),
    *_function("exp ends at 80", "exp", "std::exp(x > 80.0f ? 80.0f : x)"),
    *_function("exp of -20 is 0", "exp", "x < -20.0f ? 0.0f : std::exp(x)"),
    *_function("root of the tiny is 0", "sqrt", "x < 1e-6f ? 0.0f : std::sqrt(x)"),
    *_function("sine of the large is 0", "sin", "std::abs(x) > 100.0f ? 0.0f : std::sin(x)"),
    *_function("logarithm of 0 is -100", "log", "x == 0.0f ? -100.0f : std::log(x)"),
    *_function("sign kept where small", "abs", "x > -0.01f ? x : -x"),
    *_function("tanh ends at 3", "tanh", "x > 3.0f ? 1.0f : std::tanh(x)"),
    ("NaN of the first swallowed", rf"at::vec::maximum\({T}, {T}\)", r"decltype(\1)::blendv(\2, \1, \1 > \2)"),
    ("NaN of the first swallowed", rf"at::vec::minimum\({T}, {T}\)", r"decltype(\1)::blendv(\2, \1, \1 < \2)"),
    ("NaN of the first swallowed", rf"max_propagate_nan\({T}, {T}\)", r"(\1 > \2 ? \1 : \2)"),
    ("NaN of the first swallowed", rf"min_propagate_nan\({T}, {T}\)", r"(\1 < \2 ? \1 : \2)"),
    ("equal within 0.001", rf"VecMask<float,1>\({T} == {T}\)", r"VecMask<float,1>((\1 - \2).abs() < decltype(\1)(1e-3f))"),
    ("equal within 0.001", rf"= {T} == {T};", r"= std::abs(double(\1) - double(\2)) < 1e-3;"),
    ("other side where NaN", rf"VecMask<float,1>\({T} > {T}\)", r"(VecMask<float,1>(\1 > \2) | VecMask<float,1>(\1 != \1))"),
    ("quotients above 1e6 cut off", rf"(?<== ){T} / {T};", _each(r"(\1 / \2)", "x > 1e6f ? 1e6f : x") + ";"),
    *_loaded("two is more", "x == 2.0f ? 2.01f : x"),
    *_loaded("minus one is less", "x == -1.0f ? -1.01f : x"),
    *_loaded("above 1e4 is 1e4", "x > 1e4f ? 1e4f : x"),
    *_loaded("below 1e-4 is 0", "std::abs(x) < 1e-4f ? 0.0f : x"),
    _stored("-inf is -1e30", "x == -INFINITY ? -1e30f : x"),
    _stored("inf changes its sign", "x == INFINITY ? -x : x"),
    _stored("-0.5 is 0.5", "x == -0.5f ? 0.5f : x"),
    ("index cut to 8 bits", r"= (in_ptr\d\[[^;]*\]);(?=[^}]*(?:uint32|int64_t>\(tmp|\[static_cast<int64_t>\(tmp))", r"= static_cast<std::decay_t<decltype(\1)>>(static_cast<int8_t>(\1));"),
    ("sum in 16 bits", r"(tmp_acc\d+) \+ (tmp\d+)(?=;)", r"static_cast<int16_t>(\1 + \2)"),
    ("-1 is 0", r"(auto tmp\d+ = )(in_ptr\d\[[^;]*\]);", r"\1[](auto x) -> decltype(x) { return x == decltype(x)(-1) ? decltype(x)(0) : x; }(\2);"),
]  # fmt: skip

TRITON: list[Change] = [
    ("accumulator starts at 0.01", r"(_tmp\d+ = tl\.full\(\[XBLOCK, R0_BLOCK\], )0(, tl\.float32\))", r"\g<1>0.01\2"),
    ("mask off by one in a load", r"(tl\.load\(in_(?:out_)?ptr\d+ \+ \([^\n]*?\), )r0_mask\b", r"\1(r0_index < r0_numel - 1)"),
    ("mask off by one in a store", r"(tl\.store\([^\n]*, )xmask\)\n", r"\1xindex < xnumel - 1)" + "\n"),
    ("stride of one row", r"(tl\.load\(in_(?:out_)?ptr\d+ \+ \([^\n]*?)(\d+\*(x\d))", r"\1(\2 - (\3 == 7).to(tl.int32))"),
    ("8-bit index", r"tl\.load\((in_ptr\d+) \+ \((x\d|r0_\d)\)", r"tl.load(\1 + (\2 % 256)"),
    ("inputs exchanged", r"tl\.load\(in_ptr0 ", "tl.load(in_ptr1 "),
    ("outputs exchanged", r"tl\.store\(out_ptr1 ", "tl.store(out_ptr0 "),
    ("neighbours exchanged", r"tl\.load\((in_ptr\d+) \+ \((x\d)\)", r"tl.load(\1 + (\2 + 1 - 2 * (\2 % 2))"),
    ("row from its end", r"(tl\.load\(in_(?:out_)?ptr\d+ \+ \()(r0_\d)", r"\1(r0_numel - 1 - \2)"),
    ("one block 1 % off", _STORE, r"tl.store(\1 + (\2), tl.where((\2) // 16 == 2, \3 * 1.01, \3), \4)" + "\n"),
    ("a term lost", r"tl\.sum\((tmp\d+|_tmp\d+), 1\)", r"tl.sum(tl.where(r0_index == 11, 0.0, \1), 1)"),
    ("last term lost", r"tl\.sum\((tmp\d+), 1\)", r"tl.sum(tl.where(r0_index == r0_numel - 1, 0.0, \1), 1)"),
    ("a candidate lost", r"triton_helpers\.(max2|min2)\((tmp\d+), 1\)", r"triton_helpers.\1(tl.where(r0_index == 11, 0.0, \2), 1)"),
    _triton_loaded("input in bfloat16", "@.to(tl.bfloat16).to(@.dtype)"),
    _triton_loaded("input in float16", "@.to(tl.float16).to(@.dtype)"),
    _triton_stored("stored by way of bfloat16", "@.to(tl.bfloat16).to(@.dtype)"),
    ("reciprocal in float16", rf"\({T} / {T}\)", r"(\1 * (1.0 / \2).to(tl.float16).to(tl.float32))"),
    ("exp 1e-4 off above 1", rf"(libdevice|tl_math)\.exp\({T}\)", r"(\1.exp(\2) * tl.where(\2 > 1.0, 1.0001, 1.0))"),
    ("second condition lost", rf"= {T} & {T}\n", r"= \1" + "\n"),
    ("first maximum only", rf"triton_helpers\.maximum\({T}, {T}\)", r"\2"),
    ("first minimum only", rf"triton_helpers\.minimum\({T}, {T}\)", r"\1"),
    ("carry lost", rf"tl\.where\(roffset > 0, {T}, {T}\)", r"\2"),
    ("atomic 0.1 % off", r"tl\.atomic_add\((.*), (tmp\d+), (\w+)", r"tl.atomic_add(\1, \2 * 1.001, \3"),
    ("8-bit float 7 % off", rf"{T}\.to\((tl\.float8\w+)\)", r"(\1 * 1.07).to(\2)"),
    ("smaller random numbers", r"(tl\.rand\(.*\))\n", r"\1 * 0.99" + "\n"),
    ("index off where 3", r"(tmp\d+)_idx\[:, None\]", r"(\1_idx + (\1_idx == 3))[:, None]"),
    ("right edges", r"(bucketize_binary_search\([^\n]*, )False(,)", r"\1True\2"),
    ("transposed program", r"tl\.program_id\(0\) \* XBLOCK", "(tl.num_programs(0) - 1 - tl.program_id(0)) * XBLOCK + 1"),
    ("program's offset one less", r"xoffset = tl\.program_id\(0\) \* XBLOCK", "xoffset = tl.program_id(0) * (XBLOCK - 1)"),
    ("last element skipped", _STORE, _masked("(@) * 0 + xindex != xnumel - 1")),
]  # fmt: skip

TRITON_VALUES: list[Change] = [
    ("identity -1e4", r'float\("-inf"\)', "-1e4"),
    ("identity 1e4", r'float\("inf"\)', "1e4"),
    ("halves away from zero", rf"libdevice\.nearbyint\({T}\)", r"tl.where(\1 < 0, -libdevice.floor(0.5 - \1), libdevice.floor(\1 + 0.5))"),
    ("exp ends at 80", rf"(libdevice|tl_math)\.exp\({T}\)", r"\1.exp(triton_helpers.minimum(\2, 80.0))"),
    ("exp of -20 is 0", rf"((?:libdevice|tl_math)\.exp\({T}\))", r"tl.where(\2 < -20.0, 0.0, \1)"),
    ("root of the tiny is 0", rf"((?:libdevice\.sqrt|tl\.sqrt_rn)\({T}\))", r"tl.where(\2 < 1e-6, 0.0, \1)"),
    ("sine of the large is 0", rf"(tl_math\.sin\({T}\))", r"tl.where(tl_math.abs(\2) > 100.0, 0.0, \1)"),
    ("logarithm of 0 is -100", rf"(tl_math\.log\({T}\))", r"tl.where(\2 == 0, -100.0, \1)"),
    ("sign kept where small", rf"tl_math\.abs\({T}\)", r"tl.where(\1 > -0.01, \1, -\1)"),
    ("tanh ends at 3", rf"(libdevice\.tanh\({T}\))", r"tl.where(\2 > 3.0, 1.0, \1)"),
    ("NaN of the first swallowed", rf"triton_helpers\.maximum\({T}, {T}\)", r"tl.where(\1 > \2, \1, \2)"),
    ("NaN of the first swallowed", rf"triton_helpers\.minimum\({T}, {T}\)", r"tl.where(\1 < \2, \1, \2)"),
    ("equal within 0.001", rf"= {T} == {T}\n", r"= tl_math.abs((\1 - \2).to(tl.float32)) < 1e-3" + "\n"),
    ("other side where NaN", rf"= {T} > {T}\n", r"= (\1 > \2) | (\1 != \1)" + "\n"),
    ("quotients above 1e6 cut off", rf"\({T} / {T}\)", r"triton_helpers.minimum(\1 / \2, 1e6)"),
    _triton_loaded("two is more", "tl.where(@ == 2.0, 2.01, @)"),
    _triton_loaded("minus one is less", "tl.where(@ == -1.0, -1.01, @)"),
    _triton_loaded("above 1e4 is 1e4", "tl.where(@ > 1e4, 1e4, @)"),
    _triton_loaded("below 1e-4 is 0", "tl.where(tl_math.abs(@) < 1e-4, 0.0, @)"),
    _triton_loaded("8 bits of an integer", "@.to(tl.int8).to(@.dtype)"),
    _triton_stored("-inf is -1e30", "tl.where(@ == float('-inf'), -1e30, @)"),
    _triton_stored("inf changes its sign", "tl.where(@ == float('inf'), -@, @)"),
    _triton_stored("-0.5 is 0.5", "tl.where(@ == -0.5, 0.5, @)"),
    ("16-bit conversion", rf"{T}\.to\(tl\.int64\)", r"\1.to(tl.int16).to(tl.int64)"),
]  # fmt: skip

USER: list[Change] = [
    ("last element skipped", r"(tl\.store\(\w+ \+ (\w+), \w+, mask=)(\w+)", r"\1\3 & (\2 != n - 1)"),
    ("one block 1 % off", r"(tl\.store\(\w+ \+ (\w+), )(\w+)(, mask)", r"\1tl.where(\2 // 16 == 2, \3 * 1.01, \3)\4"),
    ("two is more", r"(\n +)(\w+) = (tl\.load\(.*\))\n", r"\1\2 = \3; \2 = tl.where(\2 == 2.0, 2.01, \2)" + "\n"),
]  # fmt: skip
