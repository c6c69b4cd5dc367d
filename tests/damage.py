"""Damage: other contents for a file of a run, as chance has them.

It knows how lines, JSON, logs and generated names look, so that much of what it makes is read further than to
the first error.
"""

# ruff: noqa: E501
from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

MOST_BYTES = 6 << 20
"""Of what comes of it: copies of copies would be no other test, and slow."""

WORDS = [
    b"9" * 5000, b"-" + b"1" * 400, b"1e309", b"-1e400", b"1e308", b"Infinity", b"NaN", b"-1", b"0", b"1.5", b"null",
    b'""', b"[]", b"{}", b"(", b")", b"]", b"[" * 500, b"(" * 3000, b"(" * 200, b"[[[[[[[[[[", b"\0", b"\xff\xfe",
    b"x" * 5000, b"\n" * 3000, b"\r", b"\r\n", b"\xe2\x80\xae", b"\x1b]0;t\x07", b"'" * 999, b'"', b"\\", b"#" * 9999,
    b"s0", b"buf0", b"op0", b"None", b"True", b"u0", b"18446744073709551616", b"-9223372036854775809", b"1_0",
    b"00000000000000000001", b"\xc2\xb2", b"\xd9\xa3", b"../../etc/passwd", b"/dev/zero", b"a,b;c:d|e", b"lambda: 0",
    b"**" * 999, b"{0}{x!r:>{y}}", b"%s%d%n", b"0/0", b"[0/0]", b"[rank7]:", b"1000000000000", b"s0*s1//s2", b"9**9**9",
    b"cuda:0", b"float8_e4m3fn", b"meta", b"f32[4, 4]", b"torch.ops.aten.mm.default", b"<lambda>", b"\t", b"    ",
]  # fmt: skip
FLOODS = [
    b"[" * 100_000, b'{"a":' * 50_000, b" " * 100_000, b"(" * 50_000, b"\n" * 100_000, b"x" * 1_000_000, b"a " * 100_000,
    b"\xf0\x9f\x91\xa8\xe2\x80\x8d" * 3000, b"e\xcc\x81" * 9999, b"]" * 100_000, b"1," * 100_000, b"\\" * 9999, b"\t" * 50_000,
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, "", "x", "9" * 4999, -1, 0, 1, 1.5, 1e308, -1e308, 5e-324, float("inf"), float("nan"), 10**25, 2**63,
    [], {}, [[]], [None], {"a": 1}, "\0", "\x1b[2J", "x" * 5000, ["x"] * 3000, [1, "a"], {"line": "x"}, [[[[]]]], "1e309",
    -(10**400), "/dev/zero", "../..", "0/0", [0, 0], {"": ""}, "\ud800", 10**18, [1e308] * 9, "model.py:9", "\u202e", -0.0,
]  # fmt: skip

Chance = random.Random
_NUMBER = re.compile(rb"\d+(?:\.\d+)?(?:e-?\d+)?")
_NAME = re.compile(
    rb"\b(?:(?:arg|buf|op|s|u|mul|add|sub|view|permute|primals|tangents|triton_\w+?)_?\d+(?:_\d+)?)\b"
)
_BRACKET = re.compile(rb"[\[\](){}'\",:=<>]")
_HEADER = re.compile(rb"(\[rank\d+\]:)?[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ (\S+):(\d+)\] ?(\[[^\]\n]*\])?")  # fmt: skip


def damaged(data: bytes, chance: Chance, other: bytes, is_json: bool = False) -> bytes:
    """Another content of a file; `other` is that of another run's file of the name. `is_json`: it is, or its
    lines are."""
    for _ in range(1 if chance.random() < 0.8 else chance.choice([2, 3, 8])):
        in_json = is_json and chance.random() < 0.5
        kind = _json if in_json else chance.choices(_KINDS, _WEIGHTS)[0]
        data = kind(data, chance, other)[:MOST_BYTES]
    return data


def _cut(data: bytes, chance: Chance, _other: bytes) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _cut_line(data: bytes, chance: Chance, _other: bytes) -> bytes:
    return data[: data.find(b"\n", chance.randrange(len(data) + 1)) + 1]


def _head_gone(data: bytes, chance: Chance, _other: bytes) -> bytes:
    return data[chance.randrange(len(data) + 1) :]


def _flipped(data: bytes, chance: Chance, _other: bytes) -> bytes:
    flipped = bytearray(data)
    for _ in range(chance.choice([1, 5, 100]) if data else 0):
        flipped[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(flipped)


def _word(chance: Chance) -> bytes:
    return chance.choice(WORDS if chance.random() < 0.92 else FLOODS)


def _inserted(data: bytes, chance: Chance, _other: bytes) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + _word(chance) + data[at:]


def _spliced(data: bytes, chance: Chance, other: bytes) -> bytes:
    a, b = chance.randrange(len(data) + 1), chance.randrange(len(other) + 1)
    return (
        data[:a]
        + other[b : b + chance.choice([10, 300, 1 << 20])]
        + data[a + chance.choice([0, 50, 1 << 20]) :]
    )


def _lines_of_another(data: bytes, chance: Chance, other: bytes) -> bytes:
    lines, others = data.split(b"\n"), other.split(b"\n")
    at, there = chance.randrange(len(lines)), chance.randrange(len(others))
    lines[at : at + chance.choice([0, 1, 5])] = others[there : there + chance.choice([1, 3, 40])]
    return b"\n".join(lines)


def _lines_again(data: bytes, chance: Chance, _other: bytes) -> bytes:
    lines = data.split(b"\n")
    at, there = chance.randrange(len(lines)), chance.randrange(len(lines))
    again = lines[there : there + chance.choice([1, 1, 4, 40])]
    lines[at:at] = again * chance.choice(
        [1, 1, 20, max(1, min(1000, (1 << 19) // (sum(map(len, again)) + 1)))]
    )
    return b"\n".join(lines)


def _lines_gone(data: bytes, chance: Chance, _other: bytes) -> bytes:
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    del lines[at : at + chance.choice([1, 1, 3, 30])]
    return b"\n".join(lines)


def _lines_moved(data: bytes, chance: Chance, _other: bytes) -> bytes:
    lines = data.split(b"\n")
    a, b = chance.randrange(len(lines)), chance.randrange(len(lines))
    if chance.random() < 0.1:
        chance.shuffle(lines)
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def _again(data: bytes, chance: Chance, _other: bytes) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + data[at : at + chance.choice([1, 10, 1000])] * chance.choice([2, 50]) + data[at:]


def _stretched(data: bytes, chance: Chance, _other: bytes) -> bytes:
    """A few characters of a line again and again: what makes a pattern start anew at each of them."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    line = lines[at]
    start = chance.randrange(len(line) + 1)
    piece = line[start : start + chance.choice([1, 2, 3, 5, 8, 20, 60])] or b" "
    lines[at] = line[:start] + piece * (chance.choice([2_000, 20_000, 60_000]) // len(piece)) + line[start:]
    return b"\n".join(lines)


def _token(data: bytes, chance: Chance, _other: bytes) -> bytes:
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    tokens = lines[at].replace(b",", b" , ").split(b" ")
    tokens[chance.randrange(len(tokens))] = _word(chance)
    lines[at] = b" ".join(tokens)
    return b"\n".join(lines)


def _replaced(pattern: re.Pattern[bytes], data: bytes, chance: Chance, by: Callable[[bytes], bytes]) -> bytes:
    """One match near a random place replaced, and sometimes all that are the same."""
    match = pattern.search(data, chance.randrange(len(data) + 1)) or pattern.search(data)
    if match is None:
        return data + by(b"")
    if chance.random() < 0.2:
        return data.replace(match[0], by(match[0])) if len(match[0]) > 1 else data
    return data[: match.start()] + by(match[0]) + data[match.end() :]


def _number(data: bytes, chance: Chance, _other: bytes) -> bytes:
    return _replaced(_NUMBER, data, chance, lambda _number: _word(chance))


def _near_number(data: bytes, chance: Chance, _other: bytes) -> bytes:
    def near(number: bytes) -> bytes:
        value = int(number) if number.isdigit() and len(number) < 99 else 3
        return b"%d" % chance.choice([value + 1, value - 1, value * 2, value // 2, -value, value << 40, 0, 1])

    return _replaced(_NUMBER, data, chance, near)


def _name(data: bytes, chance: Chance, _other: bytes) -> bytes:
    """A name where another one belongs: circles, readers before writers, two makers of one buffer."""
    names = list(dict.fromkeys(_NAME.findall(data)))
    return _replaced(_NAME, data, chance, lambda _name: chance.choice(names) if names else b"buf0")


def _bracket(data: bytes, chance: Chance, _other: bytes) -> bytes:
    return _replaced(
        _BRACKET,
        data,
        chance,
        lambda _sign: chance.choice([b"", b"(", b")", b"[", b"]", b"'", b'"', b",", b"\n"]),
    )


def _header(data: bytes, chance: Chance, _other: bytes) -> bytes:
    """Of a line of torch's log: another rank, time, file, compile id; or none of it."""
    others = [
        b"",
        b"[9/9]",
        b"[0/0_1]",
        b"[!0/0/0]",
        b"[-/-]",
        b"[__autograd]",
        b"[0/0] [__fusion]",
        b"[rank3]:",
        b"] [0/1] [",
    ]
    found = list(_HEADER.finditer(data))
    if not found:
        return _token(data, chance, b"")
    match = chance.choice(found)
    group = chance.choice([0, 1, 2, 3, 4])
    a, b = match.span(group) if match[group] is not None else match.span(0)
    return data[:a] + chance.choice([*others, chance.choice(found)[0]]) + data[b:]


def _ends(data: bytes, chance: Chance, _other: bytes) -> bytes:
    """Other line ends, indentation, encodings."""
    kind = chance.randrange(6)
    if kind == 0:
        return data.replace(b"\n", chance.choice([b"\r\n", b"\r", b"\n\n", b" \n", b""]))
    if kind == 1:
        return data.replace(b"    ", chance.choice([b"\t", b"  ", b""]))
    if kind == 2:
        return b"\xef\xbb\xbf" + data
    if kind == 3:
        return data[: 1 << 19].decode("utf-8", "replace").encode(chance.choice(["utf-16", "utf-32-le"]))
    if kind == 4:
        return data.upper() if chance.random() < 0.5 else data.lower()
    return data + bytes(chance.choice([1, 600, 70_000]))


def _in_value(value: Any, chance: Chance) -> Any:
    """With one value somewhere inside replaced, doubled, renamed or gone."""
    if isinstance(value, dict | list) and value and chance.random() < 0.88:
        keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = chance.choice(keys)
        copy: Any = value.copy()
        how = chance.random()
        if how < 0.08:
            del copy[key]
        elif how < 0.12 and isinstance(copy, dict):
            copy[chance.choice(["", "name", "schema", "x" * 999, "\x1b[2J", *map(str, keys)])] = copy.pop(key)
        elif how < 0.16 and isinstance(copy, list):
            copy += [copy[key]] * chance.choice([1, 5, 2000])
        elif how < 0.2:
            copy[key] = copy[chance.choice(keys)]
        else:
            copy[key] = _in_value(value[key], chance)
        return copy
    if isinstance(value, int | float) and chance.random() < 0.3:
        return chance.choice([-value, value * 1e9, value + 1, str(value), [value], 1e308 * (value or 1)])
    return chance.choice([*VALUES, [value] * 50, {"a": value}])


def _json(data: bytes, chance: Chance, other: bytes) -> bytes:
    """The whole, or one line's, or the object within a line."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    for start, text in ((None, data), (0, lines[at]), (max(lines[at].find(b"{"), 0), lines[at])):
        if start is None and ((len(lines) > 2 and b"\n{" in data[:5000]) or len(data) > 200_000):
            continue
        with suppress(ValueError, RecursionError, OverflowError):
            changed = json.dumps(_in_value(json.loads(text[start or 0 :]), chance)).encode()
            if start is None:
                return changed
            lines[at] = lines[at][:start] + changed
            return b"\n".join(lines)
    return _token(data, chance, other)


_TABLE: tuple[tuple[int, Callable[[bytes, Chance, bytes], bytes]], ...] = (
    (8, _cut), (4, _cut_line), (2, _head_gone), (7, _flipped), (6, _inserted), (5, _spliced), (4, _lines_of_another),
    (3, _stretched), (5, _lines_again), (6, _lines_gone), (5, _lines_moved), (4, _again), (8, _token), (6, _number), (6, _near_number),
    (8, _name), (5, _bracket), (4, _header), (2, _ends), (9, _json),
)  # fmt: skip
_WEIGHTS, _KINDS = [weight for weight, _ in _TABLE], [kind for _, kind in _TABLE]


def restrict(name: str) -> None:
    """From now on only damage of that kind, such as ``stretched``."""
    _WEIGHTS[:] = [int(kind.__name__ == f"_{name}") for kind in _KINDS]


SWEPT: list[Any] = [
    None,
    True,
    -1,
    1.5,
    1e308,
    10**99,
    "",
    "x" * 300,
    "0/0",
    [],
    [None],
    [[]],
    {},
    {"a": None},
    ["a", 1],
]


def swept(data: bytes) -> Iterator[bytes]:
    """Each place of the JSON that is a file, its lines or the ends of its lines, with each of a few values of
    other kinds; of places that are alike, such as the items of a list, the first."""
    lines = data.split(b"\n")
    seen: set[tuple[Any, ...]] = set()
    texts: list[tuple[int, int, bytes]] = [(0, 0, data)]
    texts += [(at, max(line.find(b"{"), 0), line) for at, line in enumerate(lines) if b"{" in line]
    for at, start, text in texts:
        try:
            value = json.loads(text[start:])
        except (ValueError, RecursionError):
            continue
        if not isinstance(value, dict | list):
            continue
        kind = value.get("kind", tuple(value)[:1]) if isinstance(value, dict) else ()
        for path, alike in _places(value, ()):
            if (kind, alike) not in seen:
                seen.add((kind, alike))
                for other in SWEPT:
                    changed = text[:start] + json.dumps(_with(value, path, other)).encode()
                    yield changed if text is data else b"\n".join([*lines[:at], changed, *lines[at + 1 :]])
        if text is data:
            return


def _places(value: Any, path: tuple[Any, ...], alike: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any]]:
    yield path, alike
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, (*path, key), (*alike, key))
    elif isinstance(value, list):
        for number, item in enumerate(value[:3]):
            yield from _places(item, (*path, number), (*alike, "[]"))


def _with(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    copy: Any = value.copy()
    copy[path[0]] = _with(value[path[0]], path[1:], other)
    return copy
