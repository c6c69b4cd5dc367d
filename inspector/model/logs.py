"""What TORCH_LOGS tells: fusion decisions, graph breaks, recompiles, hints.

`line` is always the 1-based line of the log file. Compile ids are torch's ``0/0``; `attempt` is
the number behind the underscore in ``[0/0_1]``, 0 where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from inspector.frozen import dataclass

from .decision import Decision
from .problem import Problem
from .source import SourceLocation, function_name, own_name, users_place


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One message: continuation lines with the same prefix are joined by newlines.

    `artifact` is the tag without brackets and underscores (``fusion``, ``graph_breaks``), None for
    a plain message. Consecutive lines without torch's prefix (autotuning tables, the program's own
    output) make one record.
    """

    line: int
    artifact: str | None
    message: str


@dataclass(frozen=True, slots=True)
class FusionCandidate:
    """A node as a round's candidate list shows it (2.6 and later). `origins` are FX node names,
    those of all members for a group."""

    name: str
    cls: str
    members: tuple[str, ...]
    origins: tuple[str, ...]
    round: int
    line: int


@dataclass(frozen=True, slots=True)
class FusionRound:
    """`nodes_before` and `nodes_after` as torch counts them, None where it does not say."""

    number: int
    nodes_before: int | None
    nodes_after: int | None
    possible: int | None
    line: int


@dataclass(frozen=True, slots=True)
class FusionLog:
    """One run of the scheduler's fusion. `graph` is the folder's name, None where the block's end
    (``debug trace: .../model__N``) is missing, as in a truncated log.

    `part` counts the schedules of one folder from 0: the subgraphs of ``torch.cond`` and its like
    are scheduled on their own, after the graph that holds them. `process` is the name of the
    ``run_*-pid_P`` folder that the block's end names, empty without one. The pass that newer versions run
    after ``fusion complete`` gets the next round's number. `benchmarks` are decisions by timing, whose sides
    are buffers in place of members, without a name, and whose reason is torch's sentence; one that ended well
    is followed by a decision of its own.
    """

    compile_id: str | None
    attempt: int
    graph: str | None
    rounds: tuple[FusionRound, ...]
    decisions: tuple[Decision, ...]
    candidates: tuple[FusionCandidate, ...]
    benchmarks: tuple[Decision, ...]
    part: int = 0
    process: str = ""


_GIVEN_UP = ("Skipping the function and falling back to eager", "results in a skip", "WON'T CONVERT")
_PREAMBLES = ("Encountered graph break", "Failed to handle graph break gracefully")


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """One graph break: where in the user's code, why, and the user's frames, innermost last.

    `suppressed`: torch shortened it as a repetition of an earlier one. `rank` is None outside of
    torch.distributed, here and below.
    """

    location: SourceLocation | None
    reason: str
    frames: tuple[SourceLocation, ...]
    compile_id: str | None
    suppressed: bool
    line: int
    text: str
    rank: int | None = None

    @property
    def gave_up(self) -> bool:
        """Whether it is none in torch's own count: Dynamo left the whole frame to eager
        (torch/_dynamo/symbolic_convert.py and convert_frame.py)."""
        return any(word in self.reason or word in self.text for word in _GIVEN_UP)

    @property
    def headline(self) -> str:
        """The reason in one line; Dynamo's "Encountered graph break when attempting to trace X:" says
        only that there was one, and what follows says why."""
        lines = [line.strip() for line in self.reason.splitlines() if line.strip()]
        if len(lines) > 1 and lines[0].startswith(_PREAMBLES):
            lines = lines[1:]
        return lines[0] if lines else "no reason given"


def led_to(
    location: SourceLocation | None, frame: str | None, breaks: Iterable[GraphBreak]
) -> SourceLocation | None:
    """The user's line from which the function `frame` came to a place, where `breaks` have one; else that."""
    name = own_name(frame or "")
    users = {
        users_place(item.location, item.frames)
        for item in breaks
        if str(item.location) == str(location) and name in (own_name(at.function or "") for at in item.frames)
    }
    return users.pop() if len(users) == 1 else location


@dataclass(frozen=True, slots=True)
class Recompile:
    """A function compiled again, with torch's guard failures verbatim (empty before 2.6 traces).

    `frames`: the calls that led to a library's function, outermost first, where a trace tells.
    """

    function: str
    location: SourceLocation | None
    reasons: tuple[str, ...]
    compile_id: str | None
    line: int
    rank: int | None = None
    frames: tuple[SourceLocation, ...] = ()

    @property
    def name(self) -> str:
        """What it is called: `forward`, `rest of forward`, `a library's module`."""
        return function_name(self.function, self.location)

    @property
    def headline(self) -> str:
        """The guard failure that tells most in one line, without the comment that quotes the user's code."""
        return telling(self.reasons).split("  # ")[0].strip() or "no reason given"


# 0/1: tensor 'x' dispatch key set mismatch. expected ..., 0/0: ___check_type_id(x, 94), type=<class 'list'>
_KIND_OF_TENSOR = re.compile(
    r"^(?:\S+: )?(?:tensor '.{1,400}?' dispatch key set mismatch\.|___check_type_id\()"
)
# 0/0: tensor 'x' size mismatch at index 0. expected 3, actual 8
_ITS_SIZES = re.compile(r"^(?:\S+: )?tensor '.{1,400}?' (?:size|stride) mismatch at index ")


def telling(reasons: Sequence[str]) -> str:
    """The first line of the one that tells most of what a function was compiled again for: there is one for
    each graph that it has, the newest first. One of another kind of tensor fails before sizes are looked at
    (torch/csrc/dynamo/guards.cpp: TensorCheck), so a graph that only has other sizes is nearer."""
    lines = [reason.splitlines()[0] if reason else "" for reason in reasons]
    first = lines[0] if lines else ""
    if not _KIND_OF_TENSOR.match(first):
        return first
    return next((line for line in lines if _ITS_SIZES.match(line)), first)


@dataclass(frozen=True, slots=True)
class TorchLog:
    """One log file, read. `records` holds the messages whose artifact has no field of its own
    (perf hints, cudagraphs, plain warnings)."""

    path: str
    fusions: tuple[FusionLog, ...]
    graph_breaks: tuple[GraphBreak, ...]
    recompiles: tuple[Recompile, ...]
    records: tuple[LogRecord, ...]
    folders: tuple[tuple[str, str | None], ...] = ()
    """(graph folder's path as logged, compile id) of every ``debug trace:`` line, in order."""
    problems: tuple[Problem, ...] = ()
