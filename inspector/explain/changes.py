"""Advice that is a change of code, as the lines to change: `- old`, `+ new`, two spaces for what stays."""

from __future__ import annotations

import re

from .program import Program

Change = tuple[str, ...]


def remove(program: Program, line: int) -> Change:
    """The line goes."""
    return (f"- {program.line(line)}",) if program.line(line) else ()


def replace_in(program: Program, line: int, pattern: str, replacement: str) -> Change:
    """The line with each match of `pattern` replaced; nothing where there is no match."""
    old = program.line(line)
    new = re.sub(pattern, replacement, old)
    return (f"- {old}", f"+ {new}") if old and new != old else ()


def without_option(program: Program, line: int, name: str) -> Change:
    """A call without its keyword `name`."""
    return replace_in(program, line, rf",?\s*\b{name}\s*=\s*[^,()]+", "")


def with_option(program: Program, line: int, option: str) -> Change:
    """``torch.compile(...)`` with one more option; nothing where the call ends on another line, has that
    option already, or is not understood."""
    old = program.line(line)
    start = re.search(r"\btorch\.compile\(", old)
    depth, end = 1, start.end() if start else len(old)
    while end < len(old) and depth:
        depth += {"(": 1, ")": -1}.get(old[end], 0)
        end += 1
    given = old[start.end() : end - 1].strip().rstrip(",") if start and not depth else ""
    if start is None or not given or re.search(rf"\b{option.partition('=')[0]}\s*=|[\"'#*]", given):
        return ()
    return (f"- {old}", f"+ {old[: start.end()]}{given}, {option}{old[end - 1 :]}")


def before(program: Program, line: int, added: str) -> Change:
    """`added` above the line."""
    return (f"+ {added}", f"  {program.line(line)}") if program.line(line) else ()


def in_eval_mode(program: Program, line: int) -> Change:
    """``torch.compile(model)`` of ``model.eval()``."""
    return replace_in(program, line, r"(torch\.compile\(\s*)([\w.]+)(?=[,)])", r"\1\2.eval()")
