"""The statements of a C++ kernel's source that compute values (torch/_inductor/codegen/cpp.py), a line each.

Names such as ``tmp3`` are used again in every block, so each is known by the block that declares it.
"""

from __future__ import annotations

import re

from .kernel_statements import Statement

# auto tmp3 = tmp0 * tmp2;      tmp_acc0_vec = at::vec::maximum(tmp_acc0_vec, tmp0);      float tmp_acc0 = 0;
_ASSIGNED = re.compile(r"^(?P<type>[\w:<>, ]+ )?(?P<name>tmp\w*) = (?P<value>.*);$")
# tmp3.store(out_ptr0 + static_cast<int64_t>(x0));
_STORED = re.compile(r"^(?P<name>tmp\w*)\.store\((?P<pointer>\w+_ptr\d+)")
# out_ptr0[static_cast<int64_t>(x0)] = tmp3;
_ELEMENT = re.compile(r"^(?P<pointer>\w+_ptr\d+)\[.*?\] = (?P<value>.*);$")
_POINTER = re.compile(r"\b(\w+_ptr\d+)\b")
_NAME = re.compile(r"\btmp\w*\b")
_CALL = re.compile(r"(?:\b|\.)(\w+)(?:<[\w:, <>]{0,200}>)?\(")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d*)?(?:e[+-]?\d+)?(?![\w.]*\()")
_CAST = re.compile(
    r"(?:static_cast|at::vec::convert|c10::convert|at::vec::VectorizedN?)<[^()]*>|decltype\([^()]*\)"
)
_OPERATORS = {
    " + ": "add", " - ": "sub", " * ": "mul", " / ": "div", " < ": "lt", " <= ": "le", " > ": "gt",
    " >= ": "ge", " == ": "eq", " != ": "ne", " & ": "and", " | ": "or", " && ": "and", " || ": "or",
    " ? ": "where", " ^ ": "xor", " << ": "lshift", " >> ": "rshift",
}  # fmt: skip
_NAMES = {
    "blendv": "where", "max_propagate_nan": "maximum", "min_propagate_nan": "minimum",
    "clamp_min": "maximum", "clamp_max": "minimum", "remainder_integral": "remainder",
}  # fmt: skip
_PASSED_ON = frozenset({
    "loadu", "load", "to", "Vectorized", "VectorizedN", "decltype", "static_cast", "convert", "cast",
    "int64_t", "float", "double", "bool", "store", "half", "bfloat16", "from", "set", "infinity",
    "masked_load", "VecMask", "size",
})  # fmt: skip


def cpp_statements(source: str) -> tuple[Statement, ...]:
    """In order of lines."""
    statements: list[Statement] = []
    blocks: list[dict[str, str]] = [{}]
    for number, line in enumerate(source.split("\n"), 1):
        if not line or not (text := line.strip()):
            continue
        if (made := _statement(number, text, blocks)) is not None:
            statements.append(made)
        for character in text:
            if character == "{":
                blocks.append({})
            elif character == "}" and len(blocks) > 1:
                blocks.pop()
    return tuple(statements)


def _known(name: str, blocks: list[dict[str, str]]) -> str | None:
    return next((block[name] for block in reversed(blocks) if name in block), None)


def _statement(number: int, text: str, blocks: list[dict[str, str]]) -> Statement | None:
    if (match := _STORED.match(text)) is not None:
        name = _known(match["name"], blocks)
        return Statement(number, number, (), (name,) if name else (), frozenset(), (), match["pointer"], True)
    if not text.endswith(";"):
        return None
    if (match := _ELEMENT.match(text)) is not None:
        names, kinds, constants = _expression(match["value"], blocks)
        return Statement(number, number, (), names, kinds, constants, match["pointer"], True)
    if (match := _ASSIGNED.match(text)) is None:
        return None
    loaded = _POINTER.search(match["value"])
    value = match["value"]
    if loaded is not None:
        # The rest of it is an address.
        value = ""
    names, kinds, constants = _expression(value, blocks)
    target = _known(match["name"], blocks)
    if match["type"] is not None or target is None:
        target = f"{match['name']}@{number}"
        blocks[-1][match["name"]] = target
    return Statement(number, number, (target,), names, kinds, constants, loaded[1] if loaded else None)


def _expression(
    text: str, blocks: list[dict[str, str]]
) -> tuple[tuple[str, ...], frozenset[str], tuple[float, ...]]:
    """Values read, operations, numbers."""
    text = _CAST.sub("", text)
    names = (known for name in _NAME.findall(text) if (known := _known(name, blocks)) is not None)
    calls = {_NAMES.get(name, name) for name in _CALL.findall(text) if not _NAME.fullmatch(name)} - _PASSED_ON
    kinds = calls | {kind for sign, kind in _OPERATORS.items() if sign in text}
    numbers = tuple(float(number) for number in _NUMBER.findall(text))
    return tuple(dict.fromkeys(names)), frozenset(kinds), numbers
