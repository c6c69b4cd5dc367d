"""SASS as ``nvdisasm -gi -c`` prints it, and what ``cuobjdump -res-usage`` says of it.

An instruction stands below the ``//## File "kernel.py", line 40`` that it came from; what was inlined has one
such line for each frame, the innermost first, with ``inlined at`` behind it.
"""

from __future__ import annotations

import re

from inspector.model.lowering import Frame, Place, Stage
from inspector.model.problem import Problem

# 	//## File "/a/triton_helpers.py", line 315 inlined at "/a/kernel.py", line 53
_FILE = re.compile(r'\s*//## File "((?:[^"\\]|\\.)*)", line (\d+)')
#         /*0010*/                   S2R R0, SR_CTAID.X ;
_INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*)")
# /*1440*/ BRA `(.L_x_0);     behind the last instruction
_FILLING = re.compile(r"(?:BRA `\(|NOP\b)")
#   REG:32 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:576 TEXTURE:0 SURFACE:0 SAMPLER:0
_USAGE = re.compile(r"\b(REG|STACK|SHARED|LOCAL):(\d+)")


def parse_sass(name: str, text: str, label: str) -> Stage:
    """The stage `name`; the loop and NOPs that fill the last line of code are no instructions."""
    lines = text.removesuffix("\n").split("\n")
    places: list[Place | None] = []
    problems: list[Problem] = []
    current: Place = ()
    collecting = False
    for number, line in enumerate(lines, 1):
        place: Place | None = None
        if "//## " in line:
            if (match := _FILE.match(line)) is None:
                problems.append(Problem(label, number, "a location that is not understood"))
            else:
                frame = Frame(match[1], int(match[2]))
                # Line 0 is LLVM's for no place.
                frames = (frame,) if frame.line else ()
                current, collecting = (*current, *frames) if collecting else frames, True
        elif _INSTRUCTION.match(line) is not None:
            place, collecting = current, False
        elif line.lstrip().startswith(".section"):
            current = ()
        places.append(place)
    for index in range(len(lines) - 1, -1, -1):
        if (match := _INSTRUCTION.match(lines[index])) is not None:
            if _FILLING.match(match[2]) is None:
                break
            places[index] = None
    return Stage(name, label, tuple(lines), tuple(places), tuple(problems))


def parse_usage(text: str) -> dict[str, int]:
    """``REG``, ``STACK``, ``SHARED`` and ``LOCAL`` of the one kernel of a cubin: registers and bytes."""
    return {name: int(value) for name, value in _USAGE.findall(text)}
