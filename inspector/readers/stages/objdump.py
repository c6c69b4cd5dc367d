"""Assembly of a C++ kernel with its lines, as ``objdump -dl --inlines --no-show-raw-insn`` prints it.

A place stands above the instructions that it is of, and is not repeated; where it was inlined stands above
each instruction again, as ``inlined by /cache/kernel.cpp:31 (kernel._omp_fn.0)``.
"""

from __future__ import annotations

import re

from inspector.model.lowering import Frame, Place, Stage
from inspector.model.problem import Problem

# 0000000000000540 <kernel._omp_fn.0>:
_FUNCTION = re.compile(r"[0-9a-f]+ <(.+)>:$")
# inlined by /cache/kernel.cpp:31 (kernel._omp_fn.0)
# clang's wrapper around a parallel region's body, .omp_outlined._debug__: what is said to be inlined into it
# was not by the kernel's source.
_WRAPPER = re.compile(r"inlined by .+ \([\w.]*\.omp_outlined(?:\.\.?\d+|\.)?\)$")
_INLINED = re.compile(r"inlined by (?=.*\)$)(.+):(\d+|\?) \(.*\)$")
# /cache/kernel.cpp:31 (discriminator 3)
_PLACE = re.compile(r"(/.+):(\d+|\?)(?: \(discriminator \d+\))?$")
#    b9:	mov    $0xf,%edx
_INSTRUCTION = re.compile(r"\s+[0-9a-f]+:\t(.+)$")


def parse_objdump(name: str, text: str, label: str) -> Stage:
    """The stage `name`: the instructions of the kernel's own functions (``kernel``, g++'s
    ``kernel._omp_fn.0``, clang's ``.omp_outlined.``), others in the file being of no kernel."""
    lines = text.removesuffix("\n").split("\n")
    places: list[Place | None] = []
    problems: list[Problem] = []
    current: Place = ()
    inlined: list[Frame] = []
    inside = False
    for number, line in enumerate(lines, 1):
        place: Place | None = None
        if (function := _FUNCTION.match(line)) is not None:
            inside, current, inlined = _is_own(function[1]), (), []
        elif _WRAPPER.match(line) is not None:
            pass
        elif (match := _INLINED.match(line)) is not None:
            inlined += _frames(match[1], match[2])
        elif (match := _PLACE.match(line)) is not None:
            current, inlined = _frames(match[1], match[2]), []
        elif _INSTRUCTION.match(line) is not None:
            place = (*current, *inlined) if inside else None
            inlined = []
        elif line.startswith("inlined by"):
            problems.append(Problem(label, number, "a location that is not understood"))
        places.append(place)
    return Stage(name, label, tuple(lines), tuple(places), tuple(problems))


def _is_own(function: str) -> bool:
    """Not the stub that leads to it in a library, ``kernel@plt``."""
    return (function.startswith("kernel") and "@" not in function) or "omp_outlined" in function


def _frames(path: str, line: str) -> Place:
    """Empty where the compiler wrote no line, or 0."""
    return (Frame(path, int(line)),) if line.isdigit() and int(line) else ()
