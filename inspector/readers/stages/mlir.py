"""TTIR and TTGIR: MLIR text with locations (mlir/lib/IR/AsmPrinter.cpp: printLocationInternal).

A line ends with ``loc(#loc3)``, and the file has a table of ``#loc3 = loc("kernel.py":40:34)``; a name
(``loc("tmp0"(#loc3))``) wraps a place, a call site (``loc(callsite(#loc9 at #loc3))``) is inlined code and
where it was inlined, ``fused`` are several, ``unknown`` none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from inspector.model.lowering import Frame, Place, Stage
from inspector.model.problem import Problem

# #loc12 = loc("/home/user/cache/uo/cuok.py":40:34)
_ALIAS = re.compile(r"#(loc\d*) = loc\((.*)\)$")
# #blocked = #ttg.blocked<{sizePerThread = [4, 1], ...}>
_ATTRIBUTE = re.compile(r"#\w+ = ")
# "/home/user/cache/uo/cuok.py":40:34, newer with an end: "f.py":40:34 to :50
_FILE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)(?: to (?:\d*:)?\d+)?')
# "tmp0"(#loc3)
_NAME = re.compile(r'"(?:[^"\\]|\\.)*"')
_REFERENCE = re.compile(r"#(loc\d*)")
_FUSED = re.compile(r"fused(?:<[^>\[]*>)?\[")
# ^bb0(%arg0: f32 loc(#loc9)):
_LABEL = re.compile(r"\^\w+")
_DEEPEST = 200


class _Malformed(Exception):
    pass


class _Locations:
    """The table of a file's locations; each is read when a line first refers to it."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self.resolve = lru_cache(maxsize=None)(self._resolve)

    def _resolve(self, text: str, depth: int = 0) -> Place:
        place, rest = self._expression(text, depth)
        if rest:
            raise _Malformed(text)
        return place

    def _expression(self, text: str, depth: int) -> tuple[Place, str]:
        """The place that a text begins with, and the rest of the text."""
        if depth > _DEEPEST:
            raise _Malformed("nested too deeply")
        if text.startswith("unknown"):
            return (), text[7:]
        if (match := _REFERENCE.match(text)) is not None:
            if match[1] not in self._texts:
                raise _Malformed(f"{match[0]} is not in the table")
            return self.resolve(self._texts[match[1]], depth + 1), text[match.end() :]
        if (match := _FILE.match(text)) is not None:
            # MLIR writes a place that it lost as line 0.
            frame = Frame(match[1], int(match[2]), int(match[3]))
            return ((frame,) if frame.line else ()), text[match.end() :]
        if (match := _NAME.match(text)) is not None:
            rest = text[match.end() :]
            if not rest.startswith("("):
                return (), rest
            place, rest = self._expression(rest[1:], depth + 1)
            return place, _past(")", rest)
        if text.startswith("callsite("):
            callee, rest = self._expression(text[9:], depth + 1)
            caller, rest = self._expression(_past(" at ", rest), depth + 1)
            return (*callee, *caller), _past(")", rest)
        if (match := _FUSED.match(text)) is not None:
            places, rest = self._expression(text[match.end() :], depth + 1)
            while rest.startswith(", "):
                more, rest = self._expression(rest[2:], depth + 1)
                places = (*places, *(frame for frame in more if frame not in places))
            return places, _past("]", rest)
        raise _Malformed(text)


def _past(token: str, text: str) -> str:
    if not text.startswith(token):
        raise _Malformed(text)
    return text[len(token) :]


def parse_mlir(name: str, text: str, label: str) -> Stage:
    """The stage `name`; an instruction whose location is not understood is a problem and has no frames."""
    lines = text.removesuffix("\n").split("\n")
    table = {match[1]: match[2] for match in map(_ALIAS.match, lines) if match is not None}
    locations = _Locations(table)
    places: list[Place | None] = []
    problems: list[Problem] = []
    opened: list[int] = []
    for number, line in enumerate(lines, 1):
        place: Place | None = None
        stripped = line.strip()
        if stripped and not (
            _ATTRIBUTE.match(line) or _LABEL.match(stripped) or stripped.startswith(("//", "module"))
        ):
            place, why = _line_place(stripped, locations)
            if why is not None:
                problems.append(Problem(label, number, why))
        places.append(place)
        # What has a region says its place behind the closing brace.
        if stripped.startswith("}") and opened:
            opener = opened.pop()
            if lines[opener].lstrip().startswith(("module", "tt.func", "}")):
                place = places[-1] = None
            places[opener] = place
        if stripped.endswith("{"):
            opened.append(number - 1)
    problems += [Problem(label, index + 1, "what begins here has no end: cut short") for index in opened]
    for alias, (number, line) in _alias_lines(lines).items():
        try:
            locations.resolve(table[alias])
        except (_Malformed, RecursionError) as error:
            problems.append(Problem(label, number, f"a location that is not understood: {error or line}"))
    return Stage(name, label, tuple(lines), tuple(places), tuple(problems))


def _alias_lines(lines: list[str]) -> dict[str, tuple[int, str]]:
    numbered = ((number, line, _ALIAS.match(line)) for number, line in enumerate(lines, 1))
    return {match[1]: (number, line) for number, line, match in numbered if match is not None}


def _line_place(line: str, locations: _Locations) -> tuple[Place, str | None]:
    """The place at a line's end, and what is wrong with it."""
    if line.endswith("{") or line in ("}", "}, {"):
        return (), None
    start = line.rfind(" loc(")
    if start < 0 or not line.endswith(")"):
        return (), "an instruction that has no location"
    try:
        return locations.resolve(line[start + 5 : -1]), None
    except (_Malformed, RecursionError) as error:
        return (), f"a location that is not understood: {error}"
