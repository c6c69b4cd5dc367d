"""Kernels' sources with the names out of the way that another compilation numbers otherwise."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from inspector.frozen import dataclass
from inspector.model.code import Kernel

# tmp12, in_ptr0, x0, r0_1, xnumel, triton_poi_fused_add_3; no function, no attribute, no type
_NAME = re.compile(
    r"(?<![\w.:])(?!(?:float|int|uint|bfloat|fp|bf|i|u|f|b)\d+(?:_t)?\b)[A-Za-z_]\w*\b(?!\s*\()"
)
_DIGIT = re.compile(r"\d")
_STRING = re.compile(r"^[^\S\n]*(?:#|//).*$|/\*.{0,2000}?\*/", re.M)
_KERNEL = re.compile(r"\b(?:triton|cpp)_\w*fused\w*|\bkernel(?:_\d+)?\b(?=\s*\()")
# #include "/tmp/torchinductor_me/3b/c3bi5gk6mslf6u4iaqafhxm64z6u65e3eain4xlary5blqnvv6xx.h"
_INCLUDE = re.compile(r"^[^\S\n]*#[^\S\n]*include .*$", re.M)
_LONGEST = 50_000
"""Characters of a line whose names are looked at; the arguments of a kernel of hundreds of tensors have some
ten thousand, and damage makes lines of a million names, a second each."""


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One row of two texts side by side: lines (number from 1, text), None where a side has none."""

    a: tuple[int, str] | None
    b: tuple[int, str] | None
    same: bool


class _Numbered(dict[str, str]):
    """A name with a digit -> its number among those; any other is itself."""

    count = 0

    def __missing__(self, name: str) -> str:
        new = name
        if _DIGIT.search(name):
            new = f"v{self.count}"
            self.count += 1
        self[name] = new
        return new


def body_of(kernel: Kernel) -> str:
    """The kernel's own lines, without imports, decorators and includes, which say how and not what."""
    source = kernel.source
    if "@triton.jit" in source:
        source = source.rsplit("@triton.jit", 1)[1]
    return _INCLUDE.sub("", source).strip("\n")


def plain_lines(text: str) -> list[str]:
    """Each line with names numbered by their first use, comments and blanks left out; one of more than
    `_LONGEST` characters as it stands."""
    names = _Numbered()
    text = _KERNEL.sub("kernel", _STRING.sub("", text))
    return [
        line if len(line) > _LONGEST else _NAME.sub(lambda match: names[match[0]], " ".join(line.split()))
        for line in text.split("\n")
    ]


def plain_code(kernel: Kernel) -> str:
    """What the kernel does, equal for kernels that differ in names only; empty without a source."""
    if not kernel.source:
        return ""
    return "\n".join(line for line in plain_lines(body_of(kernel)) if line)


def side_by_side(a: str, b: str) -> Iterator[DiffRow]:
    """Two sources line by line; lines are the same where only names differ."""
    lines_a, lines_b = a.split("\n"), b.split("\n")
    # Its heuristic bounds the work: matches that begin with every `}` of thousands take minutes.
    matcher = difflib.SequenceMatcher(None, plain_lines(a), plain_lines(b))
    for tag, i, j, k, m in matcher.get_opcodes():
        for step in range(max(j - i, m - k)):
            left = (i + step + 1, lines_a[i + step]) if i + step < j else None
            right = (k + step + 1, lines_b[k + step]) if k + step < m else None
            yield DiffRow(left, right, tag == "equal")
