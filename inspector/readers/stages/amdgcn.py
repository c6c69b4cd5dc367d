"""Assembly of an AMD GPU as LLVM writes it: places as in PTX, their callers in comments; registers."""

from __future__ import annotations

import re

from inspector.model.lowering import Frame, Place, Stage
from inspector.model.problem import Problem

# 	.file	1 "/cache/uo" "cuok.py"
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"(?:\s+"((?:[^"\\]|\\.)*)")?')
# 	.loc	1 23 15 is_stmt 1               ; helpers.py:23:15 @[ cuok.py:53:79 ]
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_CHAIN = re.compile(r"(?<![^\s:@\[\]])([^\s:@\[\]]+):(\d+):(\d+)")
# kernel: ; @kernel
_BEGIN = re.compile(r"\w+:\s+; @")
#     .vgpr_count:     43
_COUNT = re.compile(r"^\s*\.(vgpr_count|vgpr_spill_count):\s+(\d+)", re.M)


def parse_amdgcn(name: str, text: str, label: str) -> Stage:
    """The stage `name`; instructions stand below the place that they are of."""
    lines = text.removesuffix("\n").split("\n")
    files: dict[str, str] = {}
    places: list[Place | None] = []
    problems: list[Problem] = []
    current: Place = ()
    inside = False
    for number, line in enumerate(lines, 1):
        stripped = line.partition(";")[0].strip()
        place: Place | None = None
        if _BEGIN.match(line):
            inside, current = True, ()
        elif stripped.startswith(".Lfunc_end"):
            inside = False
        elif (file := _FILE.match(line)) is not None:
            files[file[1]] = f"{file[2]}/{file[3]}" if file[3] else file[2]
        elif stripped.split()[:1] == [".loc"]:
            match = _LOC.match(line)
            if match is None or match[1] not in files:
                problems.append(Problem(label, number, "a location that is not understood"))
                current = ()
            else:
                frames = [Frame(files[match[1]], int(match[2]), int(match[3]))]
                inlined = _CHAIN.findall(line.partition("@[")[2])
                frames += [Frame(path, int(row), int(column)) for path, row, column in inlined]
                # Line 0 is LLVM's for no place.
                current = tuple(frame for frame in frames if frame.line)
        elif inside and stripped and stripped[0] != "." and not stripped.endswith(":"):
            place = current
        places.append(place)
    if inside:
        problems.append(Problem(label, len(lines), "a function that has no end: cut short"))
    return Stage(name, label, tuple(lines), tuple(places), tuple(problems))


def parse_counts(text: str) -> dict[str, int]:
    """`vgpr_count` and `vgpr_spill_count` of the one kernel of a file."""
    return {name: int(value) for name, value in _COUNT.findall(text)}
