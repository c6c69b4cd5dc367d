"""What failed, in the words of whoever raised it."""

from __future__ import annotations

from inspector.frozen import dataclass

from .source import SourceLocation


@dataclass(frozen=True, slots=True)
class Failure:
    """`error` is one line; `place` the user's innermost line, else the innermost of all. `hint` is torch's
    own advice, empty where there is none that can be followed. `line` counts from 1 in the file `path` of the
    run that tells of it."""

    error: str
    place: SourceLocation | None = None
    hint: str = ""
    path: str = ""
    line: int | None = None
