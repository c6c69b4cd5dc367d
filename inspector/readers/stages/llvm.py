"""LLIR: LLVM's text with debug metadata (llvm/lib/IR/AsmWriter.cpp).

An instruction ends with ``!dbg !12``; ``!12 = !DILocation(line: 40, column: 34, scope: !4)`` is its place,
the scope leads to the file, ``inlinedAt`` to the place that it was inlined at. Line 0 is LLVM's for no place.
"""

from __future__ import annotations

import re

from inspector.model.lowering import Frame, Place, Stage
from inspector.model.problem import Problem

# !12 = distinct !DISubprogram(name: "f", file: !1, ...)
_METADATA = re.compile(r"!(\d+) = (?:distinct )?!(DI\w+)\((.*)\)$")
_DBG = re.compile(r", !dbg !(\d+)(?:, !(?!dbg )[\w.]+ !\d+)*(?: ; .*)?$")
# line: 40     scope: !4    filename: "a.py"
_FIELD = re.compile(r'\b(\w+): ("(?:[^"\\]|\\.)*"|[^,]+)')
_DEEPEST = 200

_Nodes = dict[str, tuple[str, dict[str, str]]]


def parse_llvm(name: str, text: str, label: str) -> Stage:
    """The stage `name`; an instruction without ``!dbg``, as a phi often is, has an empty place."""
    lines = text.removesuffix("\n").split("\n")
    nodes: _Nodes = {}
    for line in lines:
        if line.startswith("!") and (match := _METADATA.match(line)) is not None:
            nodes[match[1]] = (match[2], dict(_FIELD.findall(match[3])))
    known: dict[str, Place] = {}
    places: list[Place | None] = []
    problems: list[Problem] = []
    inside = listing = False
    for number, line in enumerate(lines, 1):
        place: Place | None = None
        stripped = line.strip()
        if line.startswith("define "):
            inside = True
        elif line.startswith("}"):
            inside = False
        elif inside and listing:
            # The cases of a switch stand in lines of their own, up to the bracket.
            listing = not stripped.startswith("]")
        elif inside and line.startswith("  ") and not stripped.startswith((";", "#dbg")):
            place = ()
            listing = stripped.endswith("[")
            match = _DBG.search(line)
            if match is not None:
                if match[1] not in known:
                    known[match[1]], why = _place(match[1], nodes)
                    if why is not None:
                        problems.append(Problem(label, number, why))
                place = known[match[1]]
            elif "!dbg" in line:
                problems.append(Problem(label, number, "a location that is not understood"))
        places.append(place)
    if inside:
        problems.append(Problem(label, len(lines), "a function that has no end: cut short"))
    return Stage(name, label, tuple(lines), tuple(places), tuple(problems))


def _place(key: str | None, nodes: _Nodes) -> tuple[Place, str | None]:
    frames: list[Frame] = []
    for _ in range(_DEEPEST):
        if key is None:
            return tuple(frames), None
        kind, fields = nodes.get(key, ("", {}))
        path = _path(fields.get("scope"), nodes)
        if kind != "DILocation" or path is None or not fields.get("line", "0").isdigit():
            return (), f"!{key} is not a location that is understood"
        if line := int(fields.get("line", "0")):
            column = fields.get("column", "")
            frames.append(Frame(path, line, int(column) if column.isdigit() else None))
        key = fields["inlinedAt"].removeprefix("!") if "inlinedAt" in fields else None
    return (), f"!{key} was inlined into itself"


def _path(scope: str | None, nodes: _Nodes) -> str | None:
    """The file of a scope; what has none is inside another scope that does."""
    for _ in range(_DEEPEST):
        if scope is None:
            return None
        _, fields = nodes.get(scope.removeprefix("!"), ("", {}))
        if "file" in fields:
            kind, file = nodes.get(fields["file"].removeprefix("!"), ("", {}))
            if kind != "DIFile":
                return None
            name, folder = (file.get(key, "").strip('"') for key in ("filename", "directory"))
            return name if name.startswith("/") or not folder else f"{folder}/{name}"
        scope = fields.get("scope")
    return None
