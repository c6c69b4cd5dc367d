"""PTX (PTX ISA, "Debugging Directives"): instructions stand below the ``.loc`` that they came from.

``.loc 2 232 28 // triton_helpers.py:232:28 @[ cuok.py:48:24 ]`` is a place in ``.file 2``; LLVM writes what
it was inlined at in the comment, by last parts of paths, and later versions as ``inlined_at``: a place that
an earlier ``.loc`` gave, with where that was inlined in turn.
"""

from __future__ import annotations

import re

from inspector.model.lowering import Frame, Place, Stage
from inspector.model.problem import Problem

# 	.file	1 "/home/user/cache/uo/cuok.py"
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"')
# 	.loc	2 232 28, function_name $L__info_string0, inlined_at 1 48 24  // ...
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:,[^/]*?inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
# triton_helpers.py:232:28 @[ cuok.py:48:24 ]      cuok.py:0 where there is no column
_CHAIN = re.compile(r"(?<![^\s:@\[\]])([^\s:@\[\]]+):(\d+)(?::(\d+))?")
_LABEL = re.compile(r"\$?[\w$%.]+:\s*(?://.*)?$")


def parse_ptx(name: str, text: str, label: str) -> Stage:
    """The stage `name`; an instruction above the first ``.loc`` of its function has an empty place."""
    lines = text.removesuffix("\n").split("\n")
    files = {match[1]: match[2] for match in map(_FILE.match, lines) if match is not None}
    by_last = {path.replace("\\", "/").rsplit("/", 1)[-1]: path for path in files.values()}
    places: list[Place | None] = []
    problems: list[Problem] = []
    current: Place = ()
    known: dict[tuple[str, ...], Place] = {}
    depth = 0
    section = False
    for number, line in enumerate(lines, 1):
        stripped = line.partition("//")[0].strip()
        place: Place | None = None
        if stripped.startswith(".section"):
            section = True
        elif stripped.split()[:1] == [".loc"]:
            current, why = _place(line, files, by_last, known)
            if why is not None:
                problems.append(Problem(label, number, why))
        elif stripped in ("{", "}"):
            depth += 1 if stripped == "{" else -1
            if depth == 0:
                current, section = (), False
        elif (
            depth > 0 and not section and stripped and stripped[0] not in ".$" and not _LABEL.match(stripped)
        ):
            place = current
        places.append(place)
    if depth:
        problems.append(Problem(label, len(lines), "a function that has no end: cut short"))
    return Stage(name, label, tuple(lines), tuple(places), tuple(problems))


def _place(
    line: str, files: dict[str, str], by_last: dict[str, str], known: dict[tuple[str, ...], Place]
) -> tuple[Place, str | None]:
    match = _LOC.match(line)
    if match is None or match[1] not in files or (match[4] is not None and match[4] not in files):
        return (), "a location that is not understood"
    frames = [Frame(files[match[1]], int(match[2]), int(match[3]))]
    inlined = line.partition("//")[2].partition("@[")[2]
    if inlined:
        frames += [
            Frame(by_last.get(file, file), int(row), int(column) if column else None)
            for file, row, column in _CHAIN.findall(inlined)
        ]
    elif match[4] is not None:
        caller = Frame(files[match[4]], int(match[5]), int(match[6]))
        frames += known.get(match.group(4, 5, 6), (caller,))
    # Line 0 is LLVM's for no place.
    place = tuple(frame for frame in frames if frame.line)
    known[match.group(1, 2, 3)] = place
    return place, None
