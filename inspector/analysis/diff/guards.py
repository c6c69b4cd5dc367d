"""Guards that only one side has, or with another condition, by the function that they belong to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from inspector.model.compilation import Compilation, Guard
from inspector.model.diff import Change

WHAT = "guard"
# ___check_obj_id(G['torch'], 140233973672320)
_ADDRESS = re.compile(r"(?<=, )\d{7,}(?=\))|\b\d{12,}\b|0x[0-9a-f]+")
_DEVICE = re.compile(r"DispatchKeySet\([^)]*\), |device=\w+, ")
# L['x'], G['f'].weight, len(L['args'])
_SUBJECT = re.compile(r"\b[LG]\['[^']*'\](?:\.\w+|\[[^\]]*\])*")
_ARGUMENT = re.compile(r"L\['\w+'\](?:\[\d+\])?")
_FIELD = re.compile(r"\b(\w+)=(\[[^\]]{0,4000}\]|[^,)]+)")
_CONDITIONS = frozenset({"TENSOR_MATCH", "EQUALS_MATCH", "CONSTANT_MATCH", "LENGTH_CHECK", "SHAPE"})
"""Kinds that say something of values; what else there is differs from one version of torch to the next."""

_Key = tuple[str, str, str]


def guard_changes(a: Iterable[Compilation], b: Iterable[Compilation], same_torch: bool) -> Iterator[Change]:
    """Of one torch all conditions that differ, of two those on the values of arguments. Identities of objects
    count for nothing, nor do devices, nor how often a function was compiled with the same condition. Nothing
    where no function is on both sides."""
    ours, theirs = (_by_condition(side, same_torch) for side in (a, b))
    if not {key[0] for key in ours} & {key[0] for key in theirs}:
        return
    only_a = [ours[key] for key in ours if key not in theirs]
    only_b = [theirs[key] for key in theirs if key not in ours]
    rest: dict[_Key, list[tuple[str, Guard]]] = {}
    for function, guard in only_b:
        rest.setdefault(_subject(function, guard), []).append((function, guard))
    for function, guard in only_a:
        partners = rest.get(_subject(function, guard))
        if partners:
            yield Change(WHAT, *_pair(function, guard, partners.pop(0)[1]))
        else:
            yield Change(WHAT, _text(function, guard, guard.text), None)
    for partners in rest.values():
        for function, guard in partners:
            yield Change(WHAT, None, _text(function, guard, guard.text))


def _by_condition(side: Iterable[Compilation], every: bool) -> dict[_Key, tuple[str, Guard]]:
    conditions: dict[_Key, tuple[str, Guard]] = {}
    for compilation in side:
        function = (compilation.function.function if compilation.function else None) or "?"
        for guard in compilation.guards:
            if guard.text and (every or _of_arguments(guard)):
                plain = _DEVICE.sub("", _ADDRESS.sub("", guard.text))
                conditions.setdefault((function, guard.kind, plain), (function, guard))
    return conditions


def _of_arguments(guard: Guard) -> bool:
    match = _SUBJECT.search(guard.text)
    plain = guard.kind == "SHAPE" or (match is not None and _ARGUMENT.fullmatch(match[0]) is not None)
    return plain and guard.kind in _CONDITIONS


def _subject(function: str, guard: Guard) -> _Key:
    match = _SUBJECT.search(guard.text)
    return function, guard.kind, match[0] if match is not None else ""


def _pair(function: str, a: Guard, b: Guard) -> tuple[str, str]:
    """Of two conditions on one thing the parts that differ, where they have parts."""
    ours, theirs = dict(_FIELD.findall(a.text)), dict(_FIELD.findall(b.text))
    names = [name for name in ours if name != "device" and ours[name] != theirs.get(name, ours[name])]
    subject = _subject(function, a)[2]
    if not (names and subject and a.kind == "TENSOR_MATCH"):
        return _text(function, a, a.text), _text(function, b, b.text)
    one, two = (", ".join(f"{name}={side[name]}" for name in names) for side in (ours, theirs))
    return _text(function, a, f"{subject} {one}"), _text(function, b, f"{subject} {two}")


def _text(function: str, guard: Guard, condition: str) -> str:
    """`f: L['x'] size=[8, 64], for model.py:12`."""
    place = f", for {guard.location.short}" if guard.location is not None else ""
    return f"{function}: {_ADDRESS.sub('...', condition)}{place}"
