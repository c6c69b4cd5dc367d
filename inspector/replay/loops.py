"""What compilers say of a C++ kernel's loops: why g++ would not vectorise one and clang did not, and what a
round takes by llvm-mca's model of this machine. Each only where it is installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

from inspector.analysis.stage_facts import Loop, facts_of
from inspector.model.lowering import NO_LOOPS, Stage
from inspector.readers.stages.objdump import parse_objdump

_MISSED = "-fopt-info-vec-missed"
_REMARKS = ("-Rpass-missed=loop-vectorize", "-Rpass-analysis=loop-vectorize")
_MOST_LOOPS, _LONGEST_LOOP = 24, 2000
_MCA_S = 20
# k.cpp:15:66: missed: couldn't vectorize loop
# k.cpp:15:66: missed: not vectorized: control flow in loop.
_SAID = re.compile(r"(.+?):(\d+):\d+: missed: +(couldn't vectorize loop|not vectorized: (.+))$")
# k.cpp:3:3: remark: loop not vectorized [-Rpass-missed=loop-vectorize]
# k.cpp:3:39: remark: loop not vectorized: control flow cannot be ... [-Rpass-analysis=loop-vectorize]
_REMARK = re.compile(
    r"(.+?):(\d+):\d+: remark: loop not vectorized(?:: (.+?))? \[-Rpass-\w+=loop-vectorize\]$"
)
_HOST = re.compile(r"Host CPU: (\S+)")
#    b9:	vmulps -0x180(%rbx),%zmm2,%zmm0
_INSTRUCTION = re.compile(r"\s+[0-9a-f]+:\t(.+)$")
_JUMP = re.compile(r"^((?:notrack |bnd )?j\w+) +[0-9a-f]+ <.*>$")


def asking(command: Sequence[str]) -> list[str] | None:
    """The command of a compiler that vectorises loops itself and says where it can't, on its standard error:
    of clang the same command, of g++ without Inductor's flag against that; None for another one."""
    name = command[0].rpartition("/")[2]
    if name.startswith("clang"):
        return [*command, *_REMARKS]
    if NO_LOOPS not in command or not name.startswith(("g++", "gcc")):
        return None
    rest = [word for word in command if word not in (NO_LOOPS, "-Wall")]
    return [*rest, "-ftree-loop-vectorize", _MISSED]


def reasons(printed: str, file: str) -> list[tuple[int, str]]:
    """(line of the file, reason) of its own loops, each once, in their order. g++ gives a reason behind its
    loop, clang before it, and the reason's own line may be one of a header."""
    found: dict[tuple[int, str], None] = {}
    waiting: list[str] = []
    for match in filter(None, map(_REMARK.match, printed.splitlines())):
        path, line, why = match.groups()
        if why is not None:
            # unsafe dependent memory operations in loop. Use #pragma loop distribute(enable) to ...
            waiting.append(re.split(r"[.;] ", why)[0].rstrip("."))
            continue
        if path.rpartition("/")[2] == file:
            found.update(dict.fromkeys((int(line), each) for each in waiting))
        waiting = []
    current: int | None = None
    for match in filter(None, map(_SAID.match, printed.splitlines())):
        path, line, _, why = match.groups()
        if why is None:
            current = int(line) if path.rpartition("/")[2] == file else None
        elif current is not None:
            # not vectorized: no vectype for stmt: _5 = *_4;
            found[current, why.partition(" for stmt")[0].partition(": _")[0].rstrip(" .:")] = None
    return sorted(found)


def throughput(text: str, label: str) -> dict[str, Any]:
    """Of what objdump printed: ``{"model": CPU, "loops": [[first line, last, cycles a round, cycles that its
    units alone would take]]}`` for innermost loops without calls; empty where llvm-mca is not there."""
    if shutil.which("llvm-mca") is None:
        return {}
    host = _HOST.search(_printed(["llvm-mca", "--version"]) or "")
    if host is None:
        return {}
    stage = parse_objdump("asm", text, label)
    return {"model": host[1], "loops": list(_rounds(stage))}


def _rounds(stage: Stage) -> Iterator[list[float]]:
    loops = [loop for loop in facts_of(stage).innermost if loop.bits is not None and loop.bits >= 0]
    for loop in loops[:_MOST_LOOPS]:
        lines = list(_body(stage, loop))
        if not lines or len(lines) > _LONGEST_LOOP or any(line.startswith("call") for line in lines):
            continue
        printed = _printed(["llvm-mca", "-mcpu=native", "-json"], "\n".join((".Lround:", *lines, "")))
        try:
            said = json.loads(printed or "")["CodeRegions"][0]["SummaryView"]
            cycles = said["TotalCycles"] / said["Iterations"]
            yield [loop.first, loop.last, round(cycles, 2), float(said["BlockRThroughput"])]
        except (ValueError, KeyError, IndexError, TypeError, ZeroDivisionError):
            # An instruction that this llvm-mca doesn't know.
            continue


def _body(stage: Stage, loop: Loop) -> Iterator[str]:
    for number in range(loop.first, loop.last + 1):
        match = _INSTRUCTION.match(stage.lines[number - 1])
        if match is not None and stage.places[number - 1] is not None:
            yield _JUMP.sub(r"\1 .Lround", match[1].partition("#")[0].strip())


def _printed(command: list[str], given: str = "") -> str | None:
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=_MCA_S, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
