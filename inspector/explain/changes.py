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


def before(program: Program, line: int, added: str) -> Change:
    """`added` above the line."""
    return (f"+ {added}", f"  {program.line(line)}") if program.line(line) else ()


def in_eval_mode(program: Program, line: int) -> Change:
    """``torch.compile(model)`` of ``model.eval()``."""
    return replace_in(program, line, r"(torch\.compile\(\s*)([\w.]+)(?=[,)])", r"\1\2.eval()")
