"""What the checks share: how findings are made, and the line of a long error that says what went wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from inspector.model.doctor import Finding

_NOISE = re.compile(
    r"^(?:C\+\+ compile error|Command:|Output:|Set TORCHDYNAMO_VERBOSE|You can suppress|import torch"
    r"|torch\._dynamo\.config|backend='?\w+'? raised:|Traceback|  File |from user code|While executing"
    r"|\S*(?:In file included from|In function|: In ))"
)
_COMPILER = re.compile(r"\b(?:fatal )?error: ")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_WRAPPERS = re.compile(
    r"^(?:(?:torch\.\S+\.)?(?:BackendCompilerFailed|InductorError|LoweringException|CppCompileError|SubprocException)"
    r": )+"
)


Say = Callable[..., Finding]
"""(text, effect, remedy) to a finding; effect and remedy may be left out."""


def findings_of(name: str) -> tuple[Say, Say, Say]:
    """What makes findings of that name: those that are fine, warnings, and what keeps it from compiling."""
    return partial(Finding, name, "ok"), partial(Finding, name, "warn"), partial(Finding, name, "bad")


def first_useful_line(text: str, limit: int = 240) -> str:
    """A compiler's `error:` line, else the first line that is not a wrapper's; never empty."""
    lines = [line.strip() for line in _ANSI.sub("", text).splitlines()]
    for line in lines:
        if _COMPILER.search(line):
            return _cut(line, limit)
    for line in lines:
        bare = _WRAPPERS.sub("", line)
        if bare and not _NOISE.match(bare):
            return _cut(bare, limit)
    return _cut(next(filter(None, lines), "no message"), limit)


def _cut(line: str, limit: int) -> str:
    return line if len(line) <= limit else line[: limit - 3] + "..."
