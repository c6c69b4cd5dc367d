"""Places in files, and sizes as torch prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

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
