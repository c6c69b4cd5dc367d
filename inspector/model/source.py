"""Places in files, and sizes as torch prints them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Union

from inspector.frozen import dataclass

Size = Union[int, str]
"""An extent or stride: an integer, or the text of a symbolic expression such as ``s77*64``."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A place in the user's program. `line` counts from 1; `code` is the source text when torch wrote it."""

    path: str
    line: int
    function: str | None = None
    code: str | None = None

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def short(self) -> str:
        """File name and line, without the folders."""
        return f"{self.path.replace(chr(92), '/').rsplit('/', 1)[-1]}:{self.line}"


# /home/me/inspector/capture/recorder/calls.py
_OURS = re.compile(r"(?:^|[/\\])inspector[/\\]capture[/\\](?:recorder|bootstrap)[/\\]\w+\.py$")
# /usr/lib/python3.11/contextlib.py, .../site-packages/torch/nn/modules/module.py
_LIBRARY = re.compile(r"[/\\](?:site-packages|dist-packages|lib(?:64)?[/\\]python3(?:\.\d+)?)[/\\]")
# RUN/cache/inductor/qo/cqoymhfknkxfs366hzvosdtlaf3dbtxpuvzqq7am76h46i4ltiwf.py (codecache.py: code_hash)
_GENERATED = re.compile(r"[/\\][a-z2-7]{2}[/\\]c[a-z2-7]{51}\.py$")

# torch/_dynamo/external_utils.py:67 in inner, of wrap_inline: around what lies in files that Dynamo skips
_AROUND = re.compile(r"[/\\]torch[/\\]_dynamo[/\\]external_utils\.py$")
# torch_dynamo_resume_in_forward_at_23: what follows a break (torch/_dynamo/resume_execution.py)
_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+$")


def own_name(function: str) -> str:
    """The program's name of a function, of which Dynamo may have compiled the rest after a break."""
    while (resumed := _RESUMED.match(function)) is not None:
        function = resumed[1]
    return function


def is_around(location: SourceLocation | None) -> bool:
    """Whether a function is Dynamo's own, around a module or a function of a library's that was compiled."""
    return location is not None and bool(_AROUND.search(location.path))


def function_name(function: str, location: SourceLocation | None = None) -> str:
    """`forward`, or `rest of forward` for what Dynamo compiled behind a break."""
    if is_around(location):
        return "a library's module"
    name = own_name(function)
    return name if name == function else f"rest of {name}"


def is_ours(path: str) -> bool:
    """Whether a file is of the recorder, whose functions stand between the program and what it calls."""
    return bool(_OURS.search(path))


def is_library(path: str) -> bool:
    """Whether a file belongs to an installed package or to Python itself, or is what Inductor wrote."""
    return bool(_LIBRARY.search(path) or _GENERATED.search(path))


def own_first(places: Iterable[SourceLocation]) -> list[SourceLocation]:
    """The program's own before those of libraries, in order otherwise."""
    return sorted(places, key=lambda place: is_library(place.path))


def without_ours(frames: Iterable[SourceLocation]) -> tuple[SourceLocation, ...]:
    """Frames as they would be without the recorder."""
    return tuple(frame for frame in frames if not is_ours(frame.path))


def short_places(places: Iterable[SourceLocation]) -> list[str]:
    """`model.py:14`, `16`, `17`, `other.py:3`: each once, and behind one of the same file its line alone."""
    names: list[str] = []
    file = None
    for name in dict.fromkeys(place.short for place in places):
        path, _, line = name.rpartition(":")
        names.append(line if path == file else name)
        file = path
    return names


def users_place(location: SourceLocation | None, frames: Sequence[SourceLocation]) -> SourceLocation | None:
    """The user's innermost line that led to a place; the library's own where no frame is the user's."""
    if location is None or not is_library(location.path):
        return location
    return next((frame for frame in reversed(frames) if not is_library(frame.path)), location)


@dataclass(frozen=True, slots=True)
class LineSpan:
    """Lines `first` to `last` of a file, both counted from 1 and both included."""

    first: int
    last: int

    def __contains__(self, line: object) -> bool:
        return isinstance(line, int) and self.first <= line <= self.last

    def __len__(self) -> int:
        return self.last - self.first + 1


def parse_size(text: str) -> Size:
    """`"64"` becomes 64; anything that is not a plain integer stays text, stripped."""
    text = text.strip()
    try:
        return int(text)
    except ValueError:
        return text


def numel(sizes: tuple[Size, ...]) -> int | None:
    """Product of the sizes in elements (1 for a scalar); None where any of them is symbolic."""
    product = 1
    for size in sizes:
        if not isinstance(size, int):
            return None
        product *= size
    return product


def contiguous(size: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of a tensor of that size that lies row by row."""
    strides: list[int] = []
    step = 1
    for extent in reversed(size):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))
