"""The ``[__fusion]`` messages of one scheduler: rounds, candidates, decisions, benchmarks.

Written by torch/_inductor/scheduler.py (fuse_nodes, fuse_nodes_once, WhyNoFuse, speedup_by_fusion,
speedup_by_combo_kernel). Messages come one line at a time, without prefix and without ANSI colours.
"""

from __future__ import annotations

import re

from inspector.model.decision import Decision, Verdict
from inspector.model.logs import FusionCandidate, FusionLog, FusionRound

# ===== attempting fusion (1/10): 36 nodes =====
_ATTEMPT = re.compile(r"===== attempting fusion \((\d+)/\d+\): (\d+) nodes")
# completed fusion round (1/10): fused 36 nodes into 21 nodes
_COMPLETED = re.compile(r"completed fusion round \((\d+)/\d+\): fused (\d+) nodes into (\d+) nodes")
# found 12 possible fusions
_FOUND = re.compile(r"found (\d+) possible fusions")
# cannot fuse op2 with op4: intermediate nodes between node1 & node2
# The names of groups may be thousands of characters long; the reason may hold colons of its own.
_REJECTED = re.compile(r"cannot fuse (\S+) with (\S+): (.*)", re.S)
# memory-timeline fusion rejected op2 with op4: estimated peak delta 4096 bytes      (2.15)
_REJECTED_FOR_MEMORY = re.compile(r"memory-timeline fusion rejected (\S+) with (\S+): (.*)", re.S)
# fusing op2 with op3
_FUSED = re.compile(r"fusing (\S+) with (\S+)\Z")
# can fuse (benchmark): fusing OrderedSet(['buf2']) with OrderedSet(['buf3']) cause 1.038x speedup
# cannot fuse (benchmark): fusing {'buf2'} with {'buf3'} cause 1.200x slowdown
# can fuse (assumed): fusing OrderedSet(['buf2']) with OrderedSet(['buf3']) (benchmarking skipped)      (2.15)
# can fuse (benchmark): fusing causes 1.038x speedup      (combo kernels, which torch does not name)
_BENCHMARK = re.compile(
    r"(can|cannot) fuse \((?:benchmark|assumed)\): fusing "
    r"(?:(\S(?:(?! with ).)*) with (.*?)(?= cause | \(bench)|causes)"
)
# OrderedSet(['buf2', 'buf3'])
_QUOTED = re.compile(r"'([^']*)'")
#   SchedulerNode(name='op1'), Pointwise(['[100]', 'origins=OrderedSet([amax])'])
#   FusedSchedulerNode(nodes=op2_op3), snodes: ["SchedulerNode(name='op2'), ...", ...]
_CANDIDATE = re.compile(r"  (\w+)\((?:name='([^']*)'|nodes=([^)]*))\)")
# SchedulerNode(name=\'op2\'): a member, quoted once for each group around it
_MEMBER = re.compile(r"Node\(name=\\*'([^'\\]+)")
# origins=OrderedSet([exp, sub])      origins={exp, sub} in versions before OrderedSet
_ORIGINS = re.compile(r"origins=(?:OrderedSet\(\[|\{)([^\]}]*)")

CandidateText = tuple[str, str, tuple[str, ...], tuple[str, ...]]
"""Name, class, members and origins: what a candidate line says whatever its round."""


def parse_candidate(message: str) -> CandidateText | None:
    """A line of the candidate list; None where it is something else."""
    head = _CANDIDATE.match(message)
    if head is None:
        return None
    cls, name, group = head.groups()
    members: tuple[str, ...] = (name,)
    if group is not None:
        name, members = group, tuple(_MEMBER.findall(message))
    origins: dict[str, None] = {}
    for names in _ORIGINS.findall(message):
        if names:
            origins.update(dict.fromkeys(names.split(", ")))
    return name, cls, members, tuple(origins)


class FusionBlock:
    """Builds the FusionLog of one scheduler from its messages, in their order.

    `texts` remembers candidate lines that were parsed already. Rounds repeat them, and so may
    schedulers, so that callers share one for a whole log.
    """

    def __init__(
        self, compile_id: str | None, attempt: int, part: int, texts: dict[str, CandidateText | None]
    ) -> None:
        self.compile_id = compile_id
        self.attempt = attempt
        self.part = part
        self.graph: str | None = None
        self.process = ""
        self._texts = texts
        self._rounds: list[_Round] = []
        self._inside = False
        self._decisions: list[Decision] = []
        self._candidates: list[FusionCandidate] = []
        self._benchmarks: list[Decision] = []

    @staticmethod
    def begins_schedule(message: str) -> bool:
        """Whether a message is the first that a scheduler logs."""
        return message.startswith("===== attempting fusion (1/")

    @property
    def empty(self) -> bool:
        return not (self._rounds or self._decisions or self._candidates or self._benchmarks)

    def feed(self, message: str, line: int) -> bool:
        """Take one message; False where it says nothing that a FusionLog holds."""
        if message.startswith("  "):
            return self._candidate(message, line)
        if message.startswith("cannot fuse ") and (match := _REJECTED.match(message)):
            self._decide(match[1], match[2], match[3], line)
        elif message.startswith("fusing ") and (match := _FUSED.match(message)):
            self._decide(match[1], match[2], None, line)
        elif match := _FOUND.match(message):
            self._round(line).possible = int(match[1])
        elif message.startswith("fuse_nodes_once, candidates"):
            self._round(line)
        elif match := _ATTEMPT.match(message):
            self._rounds.append(_Round(int(match[1]), line, int(match[2])))
            self._inside = True
        elif match := _COMPLETED.match(message):
            current = self._round(line)
            current.number = int(match[1])
            current.before, current.after = int(match[2]), int(match[3])
            self._inside = False
        elif message.startswith("===== fusion complete"):
            self._inside = False
        elif match := _BENCHMARK.match(message):
            sides = (tuple(_QUOTED.findall(match[2] or "")), tuple(_QUOTED.findall(match[3] or "")))
            number = self._rounds[-1].number if self._rounds else 1
            verdict: Verdict = "fused" if match[1] == "can" else "rejected"
            self._benchmarks.append(Decision("", "", number, verdict, message, line, True, *sides))
        elif match := _REJECTED_FOR_MEMORY.match(message):
            self._decide(match[1], match[2], f"memory-timeline fusion rejected: {match[3]}", line)
        else:
            return not message
        return True

    def build(self) -> FusionLog:
        return FusionLog(
            compile_id=self.compile_id,
            attempt=self.attempt,
            graph=self.graph,
            rounds=tuple(round_.build() for round_ in self._rounds),
            decisions=tuple(self._decisions),
            candidates=tuple(self._candidates),
            benchmarks=tuple(self._benchmarks),
            part=self.part,
            process=self.process,
        )

    def _round(self, line: int) -> _Round:
        """The round that is running. Outside one a new one begins: the pass after ``fusion
        complete`` has no header, nor has the rest of a log whose beginning is lost."""
        if not self._inside:
            self._rounds.append(_Round(self._rounds[-1].number + 1 if self._rounds else 1, line))
            self._inside = True
        return self._rounds[-1]

    def _candidate(self, message: str, line: int) -> bool:
        try:
            parsed = self._texts[message]
        except KeyError:
            parsed = self._texts[message] = parse_candidate(message)
        if parsed is None:
            return False
        self._candidates.append(FusionCandidate(*parsed, self._round(line).number, line))
        return True

    def _decide(self, first: str, second: str, reason: str | None, line: int) -> None:
        number = self._round(line).number
        self._decisions.append(
            Decision(first, second, number, "fused" if reason is None else "rejected", reason, line)
        )


class _Round:
    """A FusionRound while it is being read."""

    __slots__ = ("after", "before", "line", "number", "possible")

    def __init__(self, number: int, line: int, before: int | None = None) -> None:
        self.number = number
        self.line = line
        self.before = before
        self.after: int | None = None
        self.possible: int | None = None

    def build(self) -> FusionRound:
        return FusionRound(self.number, self.before, self.after, self.possible, self.line)
