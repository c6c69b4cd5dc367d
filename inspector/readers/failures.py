"""What a program or a compilation died of: Python's traceback on standard error, and Dynamo's own text.

The text is that of torch/_dynamo/exc.py (``format_error_msg``, ``unimplemented``): a headline, from 2.7 on
with ``Explanation:`` and ``Hint:`` lines, and the user's frames behind ``from user code:``.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from inspector.model.failure import Failure
from inspector.model.source import SourceLocation, users_place

from .dynamo_messages import parse_frames
from .text import read_text

if TYPE_CHECKING:
    from .run import Run

_TRACEBACK = "Traceback (most recent call last):"
# RuntimeError: The size of tensor a (32) must match ...      [rank0]: torch.OutOfMemoryError: ...
_RAISED = re.compile(r"^[A-Za-z_][\w.]*(?:: .*)?$")
_RANK = re.compile(r"^\[rank\d+\]: ?", re.MULTILINE)
_OF_LAUNCHERS = ("ChildFailedError", "ProcessRaisedException", "CalledProcessError")
"""Raised by what started the program, once the program had failed."""
_HINT = re.compile(r"^\s+Hint: (.*)$", re.MULTILINE)
# got RuntimeError('There was no fake impl registered for ...')
_INNER = re.compile(r"\bgot (\w+)\((['\"])(.*)\2\)", re.DOTALL)
_NO_ADVICE = (
    "report an issue", "may result in an error when running in eager", "likely to be a Dynamo bug",
    "may have occurred because", "no actionable hint",
)  # fmt: skip
"""Hints of torch/_dynamo/graph_break_hints.py that ask for nothing that helps this program."""
_ALLOW_BREAKS = "Consider using fullgraph=False"
_ANNOUNCES = ("Encountered graph break", "Failed to handle graph break", "Graph Break Reason", "Skip calling")
_LONGEST = 240
_MOST_SAID = 10_000
"""Letters of a message among which an inner error is looked for."""


def program_failure(run: Run) -> Failure | None:
    """The last exception that nobody caught, from what the captured program wrote to standard error."""
    for name in ("logs/stderr.txt", "stderr.txt"):
        path = run.root / name
        if path.is_file():
            return parse_traceback(read_text(path)[0], run.label(path))
    return None


def parse_traceback(text: str, path: str = "") -> Failure | None:
    """The last traceback of a text but those of launchers; None without one."""
    if _TRACEBACK not in text:
        return None
    text = _RANK.sub("", text)
    starts = [match.start() for match in re.finditer(re.escape(_TRACEBACK), text)]
    for start, end in reversed(list(pairwise([*starts, len(text)]))):
        lines = text[start:end].splitlines()
        number = next(
            (at for at, line in enumerate(lines[1:], 1) if line[:1].strip() and _RAISED.match(line)), None
        )
        if number is None or any(word in lines[number] for word in _OF_LAUNCHERS):
            continue
        frames = parse_frames("\n".join(lines[:number]))
        return Failure(
            _line(lines[number:]),
            users_place(frames[-1] if frames else None, frames),
            path=path,
            line=text.count("\n", 0, start) + number + 1,
        )
    return None


def parse_torchs(reason: str, location: SourceLocation | None, raised: bool = True) -> Failure:
    """A compilation's end as Dynamo words it; `location` is where it was, where the text does not say. Of one
    that was not raised to the program, no hint to allow what the program allows already."""
    said, _, trace = reason.partition("from user code:")
    frames = parse_frames(trace)
    inner = _INNER.search(said, 0, _MOST_SAID)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    while len(lines) > 1 and lines[0].startswith(_ANNOUNCES):
        lines.pop(0)
    # Of an error inside of another the first sentence: the rest is torch's on what to do.
    error = f"{inner[1]}: {inner[3].split('. ')[0]}" if inner is not None else _line(lines)
    void = _NO_ADVICE if raised else (*_NO_ADVICE, _ALLOW_BREAKS)
    hints = (hint for hint in _HINT.findall(said) if not any(word in hint for word in void))
    place = users_place(location or (frames[-1] if frames else None), frames)
    return Failure(_short(error), place, next(hints, ""))


def _line(lines: list[str]) -> str:
    """The first line that says anything, with the next one where it only announces that
    ("backend='inductor' raised:")."""
    said = [line.strip() for line in lines if line.strip()]
    count = 2 if said and said[0].endswith(":") else 1
    return _short(" ".join(said[:count]) or "no reason given")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
