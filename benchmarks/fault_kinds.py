"""Changes of the text of generated C++ and Triton kernels that make faults of them, most of them one token.

A change is a kind, a pattern and what takes a match's place. Those of ``VALUES`` are likely to show for some
values only: at ties, for NaN and infinities, for rows of one sign, for large or tiny numbers. Whether one is
a fault at all is for `fault_oracle` to say.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

KERNEL = re.compile(
    r"^(?P<name>\w+) = async_compile\.(?P<kind>\w+)\((?P<body>.*?)'''(?:\)|, device_str)",
    re.MULTILINE | re.DOTALL,
)

T = r"(tmp\w*)"
INDEX = r"static_cast<int64_t>\(((?:[^;()]|\([^;()]*\))*)\)"
"""An address in C++, with brackets at most one deep."""

_ERF_VECTOR = r"(\1 * decltype(\1)(1.1283792f) + \1 * \1 * \1 * decltype(\1)(0.1009108f)).tanh()"


def _each(argument: str, function: str) -> str:
    """C++: a function of `x` for each number of a vector."""
    return (
        "[](auto v) { float b[decltype(v)::size()]; v.store(b); for (auto& x : b) x = "
        f"{function}; return decltype(v)::loadu(b); }}({argument})"
    )


Change = tuple[str, str, str | Callable[[re.Match[str]], str]]


def _scaled(factor: float) -> Callable[[re.Match[str]], str]:
    return lambda match: f"{match[1]}{float(match[2]) * factor!r}{match[3]}"


def _less(match: re.Match[str]) -> str:
    return f"{match[1]}{int(match[2]) - 1}{match[3]}"


def _but_a_block(match: re.Match[str]) -> str:
    mask = "" if match[4] == "None" else f"({match[4]}) & "
    return f"tl.store({match[1]} + ({match[2]}), {match[3]}, {mask}(({match[2]}) // 16 != 2))\n"


def _comparisons(end: str) -> list[Change]:
    pairs = [(">", ">="), (">=", ">"), ("<", "<="), ("<=", "<")]
    return [(f"{new} for {old}", rf"{T} {old} {T}{end}", rf"\1 {new} \2") for old, new in pairs]


_CPP_CONSTANT = r"(static_cast<(?:float|double)>\()(-?\d+\.\d+(?:e-?\d+)?)(\))"
_LOWEST = "std::numeric_limits<float>::lowest()"

CPP: list[Change] = [
    ("minimum for maximum", r"at::vec::maximum\(", "at::vec::minimum("),
    ("maximum for minimum", r"at::vec::minimum\(", "at::vec::maximum("),
    ("no lower bound", rf"at::vec::clamp_min\({T}, [^;]*;", r"\1;"),
    ("dropped accumulation", r"(tmp_acc\w+) = \1 \+ (tmp\w+);", r"\1 = \2;"),
    ("dropped accumulation", r"(tmp_acc\w+) = sum_masked_reduce\(\1, (\w+), [^;]*;", r"\1 = \2;"),
    (
        "bfloat16 accumulator",
        r"(?<=_vec = )(tmp_acc\w+_vec) \+ (tmp\w+)(?=;)",
        _each(r"\1 + \2", "static_cast<float>(c10::BFloat16(x))"),
    ),
    (
        "bfloat16 accumulator",
        r"(?<== )(tmp_acc\d+) \+ (tmp\w+)(?=;)",
        r"static_cast<float>(c10::BFloat16(\1 + \2))",
    ),
    (
        "bfloat16 between",
        rf"(?<=auto )(tmp\d+) = {T} \* {T};",
        r"\1 = " + _each(r"\2 * \3", "static_cast<float>(c10::BFloat16(x))") + ";",
    ),
    ("constant 1 % off", _CPP_CONSTANT, _scaled(1.01)),
    ("constant 0.01 % off", _CPP_CONSTANT, _scaled(1.0001)),
    ("off by one bound", r"(x\d<static_cast<int64_t>\()(\d+)(L\))", _less),
    ("off by one index", r"(static_cast<int64_t>\()(\d\d+)(L\*x\d)", _less),
    ("wrong index", r"(in_ptr\d\[static_cast<int64_t>\()(x\d)", r"\1 0*\2"),
    ("wrong sign", rf"(= ){T} \+ {T}(?=;|\))", r"\1\2 - \3"),
    ("wrong sign", rf"(= ){T} - {T}(?=;|\))", r"\1\2 + \3"),
    ("swapped operands", rf"= {T} - {T}(?=;|\))", r"= \2 - \1"),
    ("wrong sign", rf"\(-{T}\)", r"(\1)"),
    ("wrong sign", rf"= {T}\.neg\(\)", r"= \1"),
    ("swapped outputs", r"out_ptr0(?= \+|\[)", "out_ptr1"),
    ("tanh's GELU", rf"{T}\.erf\(\)", _ERF_VECTOR),
    ("tanh's GELU", rf"std::erf\({T}\)", r"std::tanh(\1 * 1.1283792f + \1 * \1 * \1 * 0.1009108f)"),
    ("dropped mask", rf"decltype\({T}\)::blendv\({T}, {T}, {T}[^;]*;", r"\3;"),
    ("dropped mask", rf"{T} \? {T} : {T};", r"\2;"),
    ("other branch", rf"{T} \? {T} : {T};", r"\1 ? \3 : \2;"),
    ("dropped function", rf"{T}\.(?:abs|sqrt|floor|round|sin|tanh|exp)\(\)", r"\1"),
    ("rsqrt for sqrt", r"\.rsqrt\(\)", ".sqrt()"),
    ("tail of a sum", r"(sum_masked_reduce\([^;]*static_cast<int64_t>\()(\d+)(L\)\))", _less),
    ("missing division", rf"(= ){T} / {T}(?=;|\))", r"\1\2"),
    ("other bits", rf"(= ){T} (?:&|\^) {T};", r"\1\2 | \3;"),
    (
        "tail not stored",
        r"(\.store\((?:in_)?out_ptr\d \+ [^;]*, static_cast<int64_t>\()(\d+)(L?\)\);)",
        _less,
    ),
    ("tail not read", r"(loadu\(in_ptr\d \+ [^;]*, static_cast<int64_t>\()(\d+)(L?\)\);)", _less),
    (
        "one element",
        rf"{T}\.store\(((?:in_)?out_ptr\d) \+ {INDEX}[^;]*;",
        lambda m: f"{m[0]} if (({m[3]}) / 16 == 3) {m[2]}[{m[3]}] += 1;",
    ),
    (
        "one element 2 % off",
        rf"{T}\.store\(((?:in_)?out_ptr\d) \+ {INDEX}[^;]*;",
        lambda m: f"{m[0]} if (({m[3]}) / 16 == 3) {m[2]}[{m[3]}] = {m[2]}[{m[3]}] * 1.02f;",
    ),
    (
        "middle block",
        rf"{T}\.store\((?:in_)?out_ptr\d \+ {INDEX}[^;]*;",
        lambda m: f"if (({m[2]}) / 16 != 2) {{ {m[0]} }}",
    ),
    (
        "one element",
        rf"((?:in_)?out_ptr\d)\[{INDEX}\] = [^;]*;",
        lambda m: f"{m[0]} if (({m[2]}) == 3) {m[1]}[{m[2]}] = 0;",
    ),
]

CPP_VALUES: list[Change] = [
    *_comparisons(r"(?=\)|;| \?)"),
    ("== for >=", rf"{T} >= {T}\b", r"\1 == \2"),
    (
        "negated comparison",
        rf"at::vec::VecMask<float,(\d)>\({T} > {T}\)",
        r"(~at::vec::VecMask<float,\1>(\2 <= \3))",
    ),
    (
        "negated comparison",
        rf"at::vec::VecMask<float,(\d)>\({T} < {T}\)",
        r"(~at::vec::VecMask<float,\1>(\2 >= \3))",
    ),
    ("negated comparison", rf"= {T} > {T};", r"= !(\1 <= \2);"),
    ("negated comparison", rf"= {T} < {T};", r"= !(\1 >= \2);"),
    ("NaN swallowed", rf"max_propagate_nan\({T}, {T}\)", r"(\2 > \1 ? \2 : \1)"),
    ("NaN swallowed", rf"min_propagate_nan\({T}, {T}\)", r"(\2 < \1 ? \2 : \1)"),
    ("NaN swallowed", rf"at::vec::maximum\({T}, {T}\)", r"decltype(\1)::blendv(\1, \2, \2 > \1)"),
    ("NaN swallowed", rf"at::vec::minimum\({T}, {T}\)", r"decltype(\1)::blendv(\1, \2, \2 < \1)"),
    (
        "NaN swallowed",
        rf"at::vec::clamp_min\({T}, decltype\(\1\)\(0\)\)",
        r"decltype(\1)::blendv(decltype(\1)(0), \1, \1 > decltype(\1)(0))",
    ),
    ("NaN not seen", r"std::isnan\(", "std::isinf("),
    ("NaN not seen", rf"VecMask<float,1>\({T} == \1\)", r"VecMask<float,1>(\1 <= decltype(\1)(3e38f))"),
    ("identity 0 of a maximum", r"-std::numeric_limits<float>::infinity\(\)", "0.0f"),
    ("lowest for -inf", r"-std::numeric_limits<float>::infinity\(\)", _LOWEST),
    ("identity 0 of a minimum", r"(?<!-)std::numeric_limits<float>::infinity\(\)", "0.0f"),
    (
        "exp without the maximum",
        rf"(auto (tmp\d+) = ){T} - {T};(\s+auto tmp\d+ = )\2\.exp\(\)",
        r"\1\3;\5\2.exp()",
    ),
    ("log for log1p", rf"{T}\.log1p\(\)", r"(\1 + decltype(\1)(1)).log()"),
    ("log for log1p", rf"std::log1p\({T}\)", r"std::log(1 + \1)"),
    (
        "sigmoid that overflows",
        rf"decltype\({T}\)\(1\)/\(decltype\(\1\)\(1\) \+ \1\.neg\(\)\.exp\(\)\)",
        r"\1.exp()/(decltype(\1)(1) + \1.exp())",
    ),
    (
        "tanh that overflows",
        rf"{T}\.tanh\(\)",
        r"(((\1 + \1).exp() - decltype(\1)(1)) / ((\1 + \1).exp() + decltype(\1)(1)))",
    ),
    ("half up", rf"{T}\.round\(\)", r"(\1 + decltype(\1)(0.5)).floor()"),
    ("half up", rf"std::nearbyint\({T}\)", r"std::floor(\1 + 0.5f)"),
    ("root of the magnitude", rf"{T}\.sqrt\(\)", r"\1.abs().sqrt()"),
    ("root of the magnitude", rf"std::sqrt\({T}\)", r"std::sqrt(std::abs(\1))"),
    ("overflow cut off", rf"{T}\.exp\(\)", r"at::vec::minimum(\1.exp(), decltype(\1)(1e30f))"),
    ("overflow cut off", rf"std::exp\({T}\)", r"std::min(std::exp(\1), 1e30f)"),
    (
        "product cut off",
        rf"(?<=auto )(tmp\d+) = {T} \* {T};",
        r"\1 = " + _each(r"\2 * \3", "x > 3e4f ? 3e4f : x") + ";",
    ),
    (
        "0 for x / 0",
        rf"(?<== ){T} / {T};",
        r"decltype(\1)::blendv(\1 / \2, decltype(\1)(0), \2 == decltype(\2)(0));",
    ),
    ("sign of an epsilon", r"(static_cast<float>\()(\d\.?\d*e-\d+)(\))", _scaled(-1.0)),
    ("no epsilon", r"(static_cast<float>\()(\d\.?\d*e-\d+)(\))", r"\g<1>0.0\3"),
    ("wrong wrap", r"(auto tmp\d+ = \d*u?L?static_cast<int64_t>\()(\d+)(L?\);)", _less),
    ("wrong wrap", rf"{T} < 0\b", r"\1 < -1"),
    ("trunc for floor", r"std::floor\(", "std::trunc("),
    ("trunc for floor", r"\.floor\(\)", ".trunc()"),
    ("division towards zero", rf"floor_divide_integral\({T}, ([^;]*)\);", r"(\1 / (\2));"),
    ("remainder towards zero", rf"remainder_integral\({T}, {T}\)", r"(\1 - \1 / \2 * \2)"),
    ("int32 between", rf"c10::convert<int64_t>\({T}\)", r"c10::convert<int64_t>(c10::convert<int32_t>(\1))"),
    ("int32 between", rf"int64_t\({T} (\*|\+) {T}\)", r"int64_t(int32_t(\1 \2 \3))"),
    ("int16 between", rf"int32_t\({T} (\*|\+) {T}\)", r"int32_t(int16_t(\1 \2 \3))"),
    ("or for and", rf"{T} && {T}", r"\1 || \2"),
    ("stored, not added", r"atomic_add\(&?(\w+)\[([^;]*)\], (tmp\d+)\);", r"\1[\2] = \3;"),
]

_CONSTANT = r"(tmp\d+ = |, )(-?\d+\.\d+(?:e-?\d+)?)(\n|, tl)"
_STORE = r"tl\.store\(((?:in_)?out_ptr\d+) \+ \((.*)\), (tmp\d+), (.*)\)\n"

TRITON: list[Change] = [
    ("minimum for maximum", r"triton_helpers\.maximum\(", "triton_helpers.minimum("),
    ("maximum for minimum", r"triton_helpers\.minimum\(", "triton_helpers.maximum("),
    ("min for max", r"triton_helpers\.max2\(", "triton_helpers.min2("),
    ("dropped accumulation", r"(tmp\d+) = (_tmp\d+) \+ (tmp\d+)", r"\1 = \3"),
    (
        "bfloat16 accumulator",
        r"(tmp\d+) = (_tmp\d+) \+ (tmp\d+)",
        r"\1 = (\2 + \3).to(tl.bfloat16).to(tl.float32)",
    ),
    ("bfloat16 sum", r"tl\.sum\((tmp\d+), 1\)", r"tl.sum(\1.to(tl.bfloat16).to(tl.float32), 1)"),
    ("bfloat16 between", rf"(= ){T} \* {T}\n", r"\1(\2 * \3).to(tl.bfloat16).to(tl.float32)" + "\n"),
    ("constant 1 % off", _CONSTANT, _scaled(1.01)),
    ("constant 0.01 % off", _CONSTANT, _scaled(1.0001)),
    ("off by one index", r"(\(\w+ \+ )(\d\d+)(\*\w+\))", _less),
    ("off by one bound", r"(xindex < )(xnumel)()", r"\1(xnumel - 1)"),
    ("off by one bound", r"(r0_index < )(r0_numel)()", r"\1(r0_numel - 1)"),
    ("wrong index", r"tl\.load\(in_ptr0 \+ \((x\d)\)", r"tl.load(in_ptr0 + (0*\1)"),
    ("wrong sign", rf"(= ){T} \+ {T}\n", r"\1\2 - \3" + "\n"),
    ("wrong sign", rf"(= ){T} - {T}\n", r"\1\2 + \3" + "\n"),
    ("swapped operands", rf"= {T} - {T}\n", r"= \2 - \1" + "\n"),
    ("wrong sign", rf"= -{T}\n", r"= \1" + "\n"),
    ("swapped outputs", r"tl\.store\(out_ptr0 ", "tl.store(out_ptr1 "),
    ("tanh's GELU", rf"libdevice\.erf\({T}\)", r"libdevice.tanh(\1 * 1.1283792 + \1 * \1 * \1 * 0.1009108)"),
    ("dropped mask", rf"tl\.where\([^,]*mask[^,]*, {T}, 0\)", r"\1"),
    ("dropped mask", rf"tl\.where\({T}, {T}, {T}\)", r"\2"),
    ("other branch", rf"tl\.where\({T}, {T}, {T}\)", r"tl.where(\1, \3, \2)"),
    ("wrong filler", r"other=0\.0", "other=1.0"),
    (
        "dropped function",
        rf"(?:tl_math\.abs|libdevice\.sqrt|libdevice\.floor|tl_math\.sin|libdevice\.tanh|tl_math\.exp|libdevice\.exp)\({T}\)",
        r"\1",
    ),
    ("sqrt for rsqrt", r"libdevice\.rsqrt\(", "libdevice.sqrt("),
    ("missing division", rf"\({T} / {T}\)", r"(\1)"),
    ("max for sum", r"tl\.sum\(([^,]+), 1\)", r"tl.max(\1, 1)"),
    ("other bits", rf"(= ){T} (?:&|\^) {T}\n", r"\1\2 | \3" + "\n"),
    ("other random numbers", r"tl\.rand(n?)\((tmp\d+), ", r"tl.rand\1(\2, 1 + "),
    ("descending", r"descending=False", "descending=True"),
    ("scan of differences", r"(= arg0_\d) \+ (arg1_\d)", r"\1 - \2"),
    ("dropped accumulation", r"acc \+= tl\.dot\(", "acc = tl.dot("),
    (
        "bfloat16 accumulator",
        r"acc \+= (tl\.dot\(.*\))\n",
        r"acc = (acc + \1).to(tl.bfloat16).to(tl.float32)" + "\n",
    ),
    ("a block less", r"range\(0, tl\.cdiv\(K, BLOCK_K\)\)", "range(1, tl.cdiv(K, BLOCK_K))"),
    (
        "half-precision accumulator",
        r"ACC_TYPE : tl\.constexpr = tl\.float32",
        "ACC_TYPE : tl.constexpr = tl.float16",
    ),
    ("off by one bound", r"\(idx_m < M\)", "(idx_m < M - 1)"),
    ("one element", _STORE, r"tl.store(\1 + (\2), tl.where((\2) == 37, \3 + 1, \3), \4)" + "\n"),
    ("one element 2 % off", _STORE, r"tl.store(\1 + (\2), tl.where((\2) == 37, \3 * 1.02, \3), \4)" + "\n"),
    (
        "middle block",
        _STORE,
        _but_a_block,
    ),
    ("last element", _STORE, r"tl.store(\1 + (\2), tl.where(xindex == xnumel - 1, 0, \3), \4)" + "\n"),
]

TRITON_VALUES: list[Change] = [
    *_comparisons(""),
    ("negated comparison", rf"= {T} > {T}\n", r"= (\1 <= \2) == 0" + "\n"),
    ("negated comparison", rf"= {T} < {T}\n", r"= (\1 >= \2) == 0" + "\n"),
    ("NaN swallowed", rf"triton_helpers\.maximum\({T}, {T}\)", r"tl.where(\2 > \1, \2, \1)"),
    ("NaN swallowed", rf"triton_helpers\.minimum\({T}, {T}\)", r"tl.where(\2 < \1, \2, \1)"),
    ("NaN swallowed", rf"triton_helpers\.(max|min)2\({T}, 1\)", r"tl.\1(\2, 1)"),
    ("NaN not seen", r"libdevice\.isnan\(", "libdevice.isinf("),
    ("identity 0 of a maximum", r'float\("-inf"\)', "0.0"),
    ("lowest for -inf", r'float\("-inf"\)', "-3.4028234663852886e+38"),
    ("identity 0 of a minimum", r'float\("inf"\)', "0.0"),
    (
        "exp without the maximum",
        rf"(tmp\d+) = {T} - {T}\n(\s+tmp\d+ = (?:tl_math|libdevice)\.exp\()\1\)",
        r"\1 = \2" + "\n" + r"\4\1)",
    ),
    ("log for log1p", rf"libdevice\.log1p\({T}\)", r"tl_math.log(1.0 + \1)"),
    ("exp for expm1", rf"libdevice\.expm1\({T}\)", r"(tl_math.exp(\1) - 1.0)"),
    ("sigmoid that overflows", rf"tl\.sigmoid\({T}\)", r"(tl_math.exp(\1) / (1.0 + tl_math.exp(\1)))"),
    (
        "tanh that overflows",
        rf"libdevice\.tanh\({T}\)",
        r"((tl_math.exp(\1 + \1) - 1.0) / (tl_math.exp(\1 + \1) + 1.0))",
    ),
    ("half up", rf"libdevice\.nearbyint\({T}\)", r"libdevice.floor(\1 + 0.5)"),
    ("root of the magnitude", rf"(libdevice\.sqrt|tl\.sqrt_rn)\({T}\)", r"\1(tl_math.abs(\2))"),
    ("overflow cut off", rf"((?:tl_math|libdevice)\.exp\({T}\))", r"triton_helpers.minimum(\1, 1e30)"),
    ("product cut off", rf"(= ){T} \* {T}\n", r"\1triton_helpers.minimum(\2 * \3, 3e4)" + "\n"),
    ("0 for x / 0", rf"\({T} / {T}\)", r"tl.where(\2 == 0, 0.0, \1 / \2)"),
    ("sign of an epsilon", r"(tmp\d+ = |, )(\d\.?\d*e-\d+)(\n|, tl)", _scaled(-1.0)),
    ("no epsilon", r"(tmp\d+ = |, )(\d\.?\d*e-\d+)(\n|, tl)", r"\g<1>0.0\3"),
    ("wrong wrap", r"(tmp\d+ = tl\.full\(\[[^\]]*\], )(\d+)(, tl\.int)", _less),
    ("wrong wrap", rf"{T} < 0\b", r"\1 < -1"),
    ("trunc for floor", r"libdevice\.floor\(", "libdevice.trunc("),
    ("division towards zero", rf"triton_helpers\.div_floor_integer\({T}, *{T}\)", r"(\1 // \2)"),
    ("remainder towards zero", rf"triton_helpers\.remainder_integer\({T}, *{T}\)", r"(\1 % \2)"),
    ("int32 between", rf"{T}\.to\(tl\.int64\)", r"\1.to(tl.int32).to(tl.int64)"),
    (
        "last of the ties",
        r"(\w+)_val, (\w+)_idx = triton_helpers\.(max|min)_with_index\((\w+), (\w+), (\d)\)",
        r"\1_val, \2_idx = triton_helpers.\3_with_index(\4, -\5, \6); \2_idx = -\2_idx",
    ),
    ("stored, not added", r"tl\.atomic_add\((.*), (tmp\d+), (\w+), sem='relaxed'\)", r"tl.store(\1, \2, \3)"),
    ("other bits", rf"{T} & {T}", r"\1 | \2"),
]

USER: list[Change] = [
    (">= for >", r"(\w+) > (\w+)", r"\1 >= \2"),
    ("wrong sign", r"(= \w+) \+ (\w+)\n", r"\1 - \2" + "\n"),
    ("off by one bound", r"(\w+ < )(n)\n", r"\1\2 - 1" + "\n"),
    ("constant 1 % off", r"(, |\* )(-?\d+\.\d+)()", _scaled(1.01)),
    ("one element", r"(tl\.store\(\w+ \+ (\w+), )(\w+)(, mask)", r"\1tl.where(\2 == 37, 0.0, \3)\4"),
    ("middle block", r"(tl\.store\(\w+ \+ (\w+), \w+, mask=)(\w+)", r"\1\3 & (\2 // 16 != 2)"),
]

_EVERYWHERE = {
    "identity 0 of a maximum", "identity 0 of a minimum", "lowest for -inf", "exp without the maximum",
    "one element", "one element 2 % off", "middle block",
}  # fmt: skip
"""Kinds that are planted at all places of the same text: vectors, tail and scalars of one loop."""


@dataclass(frozen=True)
class Fault:
    """A change of one kernel of one graph: stretches of output_code.py, each (start, end, new text)."""

    graph: str
    kernel: str
    kind: str
    edits: tuple[tuple[int, int, str], ...]

    def plant(self, text: str) -> str:
        for start, end, new in sorted(self.edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text


KINDS = {"first": "fault_kinds", "unseen": "fault_kinds_unseen", "third": "fault_kinds_third"}
"""The sets of kinds, and the modules that have them."""


def _changes(kind: str, name: str, kinds: str) -> tuple[list[Change], list[Change]]:
    module = import_module(KINDS[kinds])
    if kind != "triton":
        return module.CPP, module.CPP_VALUES
    return (module.TRITON, module.TRITON_VALUES) if name.startswith("triton_") else (module.USER, [])


def faults_of(graph: str, text: str, most: int, seed: int = 0, kinds: str = "first") -> list[Fault]:
    """At most `most` faults for each kernel, two of three from what depends on values where there is that, of
    as many kinds as there are, at places drawn at random: one, or all that hold the same text.
    `kinds`: of this set."""
    faults = []
    for kernel in KERNEL.finditer(text):
        name, start = kernel["name"], kernel.start("body")
        triton = kernel["kind"] == "triton"
        # Of a Triton source only the functions, not what a decorator says; of C++ what is behind the head.
        inner = text.find("\ndef " if triton else 'extern "C"', start, kernel.end())
        start = max(start, inner)
        body = text[start : kernel.end("body")]
        choice = random.Random(f"{seed}{graph}{name}")
        queues = []
        for changes in _changes(kernel["kind"], name, kinds):
            by_kind: dict[str, dict[str, list[re.Match[str]]]] = {}
            for kind, pattern, _ in changes:
                if kind != "swapped outputs" or "out_ptr1" in body:
                    for match in re.finditer(pattern, body):
                        by_kind.setdefault(kind, {}).setdefault(match[0], []).append(match)
            news = {(kind, pattern): new for kind, pattern, new in changes}
            queue = [
                _fault(graph, name, kind, start, places, news[kind, places[0].re.pattern], choice)
                for kind, texts in by_kind.items()
                for places in texts.values()
            ]
            choice.shuffle(queue)
            seen: dict[str, int] = {}
            ranked: list[tuple[int, int, Fault]] = []
            for fault in queue:
                seen[fault.kind] = seen.get(fault.kind, 0) + 1
                ranked.append((seen[fault.kind], len(ranked), fault))
            queues.append([fault for *_, fault in sorted(ranked, key=lambda item: item[:2])])
        plain, values = ([fault for fault in queue if fault.plant(text) != text] for queue in queues)
        share = most - most // 3
        faults += (values[:share] + plain)[:most]
    return faults


def _fault(
    graph: str,
    kernel: str,
    kind: str,
    start: int,
    places: list[re.Match[str]],
    new: str | Callable[[re.Match[str]], str],
    choice: random.Random,
) -> Fault:
    if kind not in _EVERYWHERE and choice.random() < 0.4:
        places = [choice.choice(places)]
    edits = (
        (start + match.start(), start + match.end(), new(match) if callable(new) else match.expand(new))
        for match in places
    )
    return Fault(graph, kernel, kind, tuple(edits))
