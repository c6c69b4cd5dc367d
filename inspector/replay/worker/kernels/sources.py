"""Which memories a value in loop bodies is made of, by their printed text."""

from __future__ import annotations

import re
from collections.abc import Sequence

LOADED = re.compile(r"ops\.load\('(\w+)'")
_OPERAND = re.compile(r"(?<!ops\.)\b\w+")
"""Not the operator itself, as values have the names of operators."""
_ASSIGNED = re.compile(r"^ *([\w, ]+?) = (.*)$", re.MULTILINE)
_RETURNED = re.compile(r"def (masked_subblock\d+)\(self, ops\):.*?return (\w+)", re.DOTALL)
_STORED = re.compile(r"ops\.store\w*\('(\w+)', \w+, (\w+)")
_DIVIDED = re.compile(r"ops\.(floordiv|truncdiv|remainder|fmod|mod)\((\w+), (\w+)")
"""Operators whose result for a large quotient depends on how that is rounded as well."""
_INTEGER = re.compile(r"\b(\w+) = ops\.(?:constant|index_expr|to_dtype)\([^,\n]+, torch\.u?int")


def sources(bodies: Sequence[str], sink: re.Pattern[str], past: re.Pattern[str] | None = None) -> set[str]:
    """Buffers that what `sink` names in the loop bodies is made of, but for what only goes into `past`."""
    made_of: dict[str, set[str]] = {}
    pending = []
    for number, body in enumerate(bodies):
        for names, value in _ASSIGNED.findall(body):
            if past is not None and past.search(value):
                continue
            loaded = LOADED.findall(value)
            parts = set(loaded) or {f"{number} {part}" for part in _OPERAND.findall(value)}
            for name in names.split(","):
                made_of.setdefault(f"{number} {name.strip()}", set()).update(parts)
        for name, value in _RETURNED.findall(body):
            made_of.setdefault(f"{number} {name}", set()).add(f"{number} {value}")
        for buffer, value in _STORED.findall(body):
            made_of.setdefault(buffer, set()).add(f"{number} {value}")
        pending += [f"{number} {name}" for name in sink.findall(body)]
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += made_of.get(name, ())
    return {name for name in seen if " " not in name}


def quotients(bodies: Sequence[str]) -> set[str]:
    """Operators that divide floats and keep what is whole, or what is left."""
    found = set()
    for body in bodies:
        integers = set(_INTEGER.findall(body))
        found |= {name for name, *operands in _DIVIDED.findall(body) if not integers.intersection(operands)}
    return found
