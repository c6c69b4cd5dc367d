"""What a reader could not understand, kept with its place so that nothing is lost in silence."""

from __future__ import annotations

from typing import TypeVar

from inspector.frozen import dataclass

_T = TypeVar("_T")
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """`path` is relative to the run's root where it can be; `line` counts from 1, None for the whole file."""

    path: str
    line: int | None
    message: str

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.message}"


def told(error: BaseException) -> str:
    """What a failure that nobody foresaw says of itself, and the line of ours that it was met in."""
    place = error.__traceback__
    line = ""
    while place is not None:
        path = place.tb_frame.f_code.co_filename.replace("\\", "/")
        if "/inspector/" in path:
            line = f" at {path.rpartition('/inspector/')[2]}:{place.tb_lineno}"
        place = place.tb_next
    said = " ".join(str(error).split())[:_LONGEST]
    return f"{type(error).__name__}: {said}".rstrip(": ") + line


Read = tuple[_T, tuple[Problem, ...]]
"""What a reader gives back: the value, and what was wrong where it read."""


class InspectorError(Exception):
    """A user's mistake or an unreadable input: one line that says what is wrong and what to do.

    `exit_code` follows the command contract: 1 the question has a bad answer, 2 wrong usage or
    unreadable input.
    """

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code
