"""TORCH_LOGS text: fusion by compiled graph, graph breaks, recompiles, and every other message.

torch/_logging/_internal.py (TorchLogsFormatter) writes one prefix before each line of a message:
``[rank0]:V1121 05:00:18.841000 12448 torch/_inductor/scheduler.py:2372] [0/0_1] [__fusion] TEXT``
with the rank under torch.distributed, the compile id and the attempt while something is compiled,
and the artifact's name where the logger has one. The time has milliseconds only, so lines with the
same prefix may be one message or several from the same log call; what is known of the artifacts decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from inspector.model.logs import GraphBreak, LogRecord, Recompile, TorchLog
from inspector.model.problem import Problem

from .dynamo_messages import (
    begins_graph_break,
    begins_recompile,
    is_suppressed_break,
    parse_graph_break,
    parse_recompile,
    without_announcements,
)
from .fusion_log import CandidateText, FusionBlock

# ESC[32m1.038ESC[39m: torch colours the factors of benchmarked fusions
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
# 0/0      !0      !0/0/0 (compiled autograd)      0/0_1 (second attempt): torch/_guards.py, TraceId
_TRACE_ID = r"\[(!\d+(?:/\d+/\d+)?|\d+/\d+)(?:_(\d+))?\]"
# [rank0]:V1121 05:00:18.841000 12448 torch/_inductor/scheduler.py:2372] [0/0_1] [__fusion]
_PREFIX = re.compile(
    r"((?:\[[A-Za-z_]*(\d+)\]: ?)*"
    r"[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d{6} (\d+) [^\]]*:\d+\]"
    rf"(?: {_TRACE_ID})?(?: \[__([^\]]+)\])?)(?: |\Z)"
)
# 45%|####  | 9/20V1121 05:00:18.841000 12448 torch/...: the program left its own line unfinished
_STAMP = re.compile(r"(?:\[[A-Za-z_]*\d+\]: ?){0,4}[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ \S")
# [0/0] Running warmup function=partition_0: cudagraph_trees.py puts the id into the message
_LEADING_ID = re.compile(rf"\A{_TRACE_ID} ")
# model__0_forward_1 debug trace: /home/user/.../run_X-pid_1/torchinductor/model__0_forward_1.0
_DEBUG_TRACE = re.compile(r"\S+ debug trace: (.+)")
#   Partition 0: 2 nodes, non-cudagraphable      op0: reason=cpu ops, ir=ExternKernelOut
_CUDAGRAPH_ITEM = re.compile(r" +(?:Partition \d+: |\S+: reason=)")
#          File "/home/user/train.py", line 3, in f: the stack of such an item, logged line by line
_CUDAGRAPH_STACK = " " * 9

_ONE_LINERS = frozenset({"cudagraphs", "loop_ordering", "autotuning", "compute_dependencies"})
"""Artifacts that log bursts of single lines, so that lines with the same prefix are separate messages."""

_RECOMPILES = frozenset({"recompiles", "recompiles_verbose"})


def parse_torch_log(text: str, path: str) -> TorchLog:
    """Read a TORCH_LOGS file, or standard error with such lines in it; `path` names it in problems.

    Never raises. Lines that torch did not write (tables, warnings, the program's output) are kept
    as records without a level. A text without any line of torch's is a problem, and so is one that
    ends within a line: the process was killed or the copy is incomplete.
    """
    parser = _Parser()
    number = 0
    for filled, group in groupby(_lines(text), bool):
        lines = list(group)
        if filled:
            for at, line in enumerate(lines, number + 1):
                parser.read(line, at)
        else:
            parser.blank(len(lines), number + 1)
        number += len(lines)
    problems = []
    if text.strip() and not parser.torch_lines:
        message = (
            "no line has torch's log prefix; TORCH_LOGS_FORMAT must not be set for a log that is to be read"
        )
        problems.append(Problem(path, 1, message))
    elif text and not text.endswith("\n"):
        problems.append(
            Problem(path, text.count("\n") + 1, "the log ends within a line; its last message may be cut")
        )
    return parser.finish(path, tuple(problems))


def _lines(text: str) -> list[str]:
    """Lines by line feed only: torch keeps other line separators inside a message."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


_Key = tuple[str | None, str, str | None, int]


class _Header(NamedTuple):
    """What a line's prefix says. `key` tells apart compilations that share one log file."""

    prefix: str
    rank: int | None
    compile_id: str | None
    attempt: int
    artifact: str | None
    key: _Key


def _header(match: re.Match[str]) -> _Header:
    prefix, rank, process, compile_id, number, artifact = match.groups()
    attempt = int(number or 0)
    key = (rank, process, compile_id, attempt)
    return _Header(prefix, None if rank is None else int(rank), compile_id, attempt, artifact, key)


class _Message:
    """A message that is being collected; `header` is None for text that torch did not write."""

    __slots__ = ("first", "header", "last", "lines")

    def __init__(self, header: _Header | None, text: str, number: int) -> None:
        self.header = header
        self.lines = [text]
        self.first = self.last = number

    def add(self, text: str, number: int) -> None:
        self.lines.append(text)
        self.last = number

    def add_blank(self, count: int) -> None:
        self.lines += [""] * count
        self.last += count

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def begins_like(self, text: str) -> bool:
        """Whether the first two words are the same: the same log call again."""
        first = next((line for line in self.lines if line), "")
        return first.split(" ", 2)[:2] == text.split(" ", 2)[:2]

    def record(self) -> LogRecord:
        artifact, text = self.header.artifact if self.header else None, self.text
        if artifact == "cudagraphs" and self.header and self.header.compile_id is None:
            text = _LEADING_ID.sub("", text)
        return LogRecord(self.first, artifact, text)


class _Parser:
    """Takes the lines of a log in order; `finish` returns what they say."""

    def __init__(self) -> None:
        self.torch_lines = 0
        self._header: _Header | None = None
        self._events: dict[str, _Message] = {}
        self._breaks: list[_Message] = []
        self._recompiles: list[_Message] = []
        self._records: list[_Message] = []
        self._record: _Message | None = None
        self._blocks: list[FusionBlock] = []
        self._open: dict[_Key, list[FusionBlock]] = {}
        self._texts: dict[str, CandidateText | None] = {}
        self._folders: list[tuple[str, str | None]] = []

    def read(self, line: str, number: int) -> None:
        header = self._header
        if header is not None and header.artifact is not None and line.startswith(header.prefix):
            text = line[len(header.prefix) + 1 :]
        else:
            match = _PREFIX.match(line)
            if match is None:
                self._read_foreign(line, number)
                return
            header = self._header = _header(match)
            text = line[match.end() :]
        self.torch_lines += 1
        if header.artifact == "fusion":
            self._read_fusion(header, text, number)
        elif header.artifact == "graph_breaks":
            self._read_event(header, text, number, begins_graph_break(text), self._breaks)
        elif header.artifact in _RECOMPILES:
            self._read_event(header, text, number, begins_recompile(text), self._recompiles)
        elif header.artifact is None and (match := _DEBUG_TRACE.match(text)):
            self._close_blocks(header, match[1])
        elif header.artifact is None and is_suppressed_break(text):
            self._breaks.append(_Message(header, text, number))
        else:
            self._read_record(header, text, number)

    def blank(self, count: int, number: int) -> None:
        """Empty lines, `count` of them from `number` on: part of the foreign text before them. There may be
        millions."""
        record = self._record
        if record is not None and record.header is None and record.last == number - 1:
            record.add_blank(count)

    def finish(self, path: str, problems: tuple[Problem, ...]) -> TorchLog:
        return TorchLog(
            path=path,
            fusions=tuple(block.build() for block in self._blocks if not block.empty),
            graph_breaks=without_announcements(tuple(self._build_breaks())),
            recompiles=tuple(self._build_recompiles()),
            records=tuple(message.record() for message in self._records),
            folders=tuple(self._folders),
            problems=problems,
        )

    def _read_foreign(self, line: str, number: int) -> None:
        """A line without a prefix, or with one only after text that had no line end of its own."""
        stamp = _STAMP.search(line)
        if stamp is not None and stamp.start() > 0 and _PREFIX.match(line, stamp.start()):
            self._keep_foreign(line[: stamp.start()], number)
            self._header = None
            self.read(line[stamp.start() :], number)
        else:
            self._keep_foreign(line, number)

    def _keep_foreign(self, text: str, number: int) -> None:
        record = self._record
        if record is not None and record.header is None and record.last == number - 1:
            record.add(text, number)
        elif text.strip():
            self._start_record(None, text, number)

    def _read_record(self, header: _Header, text: str, number: int) -> None:
        record = self._record
        if (
            record is not None
            and record.header is not None
            and _continues(record, record.header, header, text)
        ):
            record.add(text, number)
        else:
            self._start_record(header, text, number)

    def _start_record(self, header: _Header | None, text: str, number: int) -> None:
        self._record = _Message(header, text, number)
        self._records.append(self._record)

    def _read_event(
        self, header: _Header, text: str, number: int, begins: bool, events: list[_Message]
    ) -> None:
        """A line of a graph break or recompile. Events are found by prefix, so that those of two
        processes may be interleaved; a line that no event claims is kept as a record."""
        if begins:
            event = self._events[header.prefix] = _Message(header, text, number)
            events.append(event)
        elif header.prefix in self._events:
            self._events[header.prefix].add(text, number)
        else:
            self._read_record(header, text, number)

    def _read_fusion(self, header: _Header, text: str, number: int) -> None:
        blocks = self._open.get(header.key)
        if blocks is None:
            blocks = self._open[header.key] = []
        if not blocks or (FusionBlock.begins_schedule(text) and not blocks[-1].empty):
            block = FusionBlock(header.compile_id, header.attempt, len(blocks), self._texts)
            blocks.append(block)
            self._blocks.append(block)
        if not blocks[-1].feed(text, number):
            self._read_record(header, text, number)

    def _close_blocks(self, header: _Header, folder: str) -> None:
        """``debug trace:`` ends what was logged since the last such line of the same compilation.

        The attempt is part of the key: messages of one that was abandoned stay without a graph.
        """
        parts = folder.replace("\\", "/").rstrip("/").split("/")
        for block in self._open.pop(header.key, ()):
            block.graph = parts[-1]
            block.process = parts[-3] if len(parts) >= 3 else ""
        self._folders.append((folder, header.compile_id))

    def _build_breaks(self) -> Iterator[GraphBreak]:
        for message in self._breaks:
            compile_id = message.header.compile_id if message.header else None
            event = parse_graph_break(message.text, compile_id, message.first)
            yield replace(event, rank=message.header.rank) if message.header else event

    def _build_recompiles(self) -> Iterator[Recompile]:
        for message in self._recompiles:
            compile_id = message.header.compile_id if message.header else None
            event = parse_recompile(message.text, compile_id, message.first)
            yield replace(event, rank=message.header.rank) if message.header else event


def _continues(record: _Message, before: _Header, header: _Header, text: str) -> bool:
    """Whether a line belongs to the message before it."""
    if header.artifact == "cudagraphs" and before.artifact == "cudagraphs":
        if text.startswith(_CUDAGRAPH_STACK):
            return True
        if _CUDAGRAPH_ITEM.match(text):
            return False
    if header.prefix != before.prefix:
        return False
    if not text or text[0] == " ":
        return True
    return header.artifact not in _ONE_LINERS and not record.begins_like(text)
