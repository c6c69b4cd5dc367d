"""Colours of program text: (start, end, role) spans for each line. Slow enough to be run in a thread.

Roles are few, so that every theme, the terminal's own colours included, can give each a meaning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Literal

from .documents import Language

if TYPE_CHECKING:
    from pygments.lexer import Lexer

Role = Literal["keyword", "name", "function", "string", "number", "comment", "operator"]
Span = tuple[int, int, Role]

# op1_op2: FusedSchedulerNode(SchedulerNode,SchedulerNode)        op1.unmet_dependencies = [...]
_IR = re.compile(
    r"(?P<head>^\w+(?=: \w+\())"
    r"|(?P<attribute>^\w+(?:\.[\w\[\]]+)+(?= =))"
    r"|(?P<string>'[^']*')"
    r"|(?P<keyword>\b(?:def|class|return|None|True|False)\b)"
    r"|(?P<name>\b[A-Z]\w+(?=\()|\btorch\.\w+)"
    r"|(?P<function>\bops\.\w+|\bextern_kernels\.\w+)"
    r"|(?P<number>\b\d+(?:\.\d+)?\b)"
)
# 3  op3   reduction           float32 [100, 1]        ┌ op1   extern mm   [100]   ← 4 in one: op1_op2_op3_op4
_OUTLINE = re.compile(
    r"(?P<index>^\s*\d+(?=  ))"
    r"|(?P<string>←.*|new$|gone after fusion$)"
    r"|(?P<operator>[┌│└╶])"
    r"|(?P<keyword>\bextern \S+|\btemplate\b)"
    r"|(?P<name>\breduction\b)"
    r"|(?P<shape>\b\w+ \[[^\[\]]*\])"
)
# Pygments has no lexer for these two.
# %tmp0_2 = tt.load %tmp0_1, %xmask : tensor<512x!tt.ptr<f32>, #blocked>
_MLIR = re.compile(
    r"(?P<comment>//.*)"
    r"|(?P<string>\"[^\"]*\")"
    r"|(?P<name>\btensor<[^>]*>?|!tt\.\w+|#\w+(?:\.\w+)?)"
    r"|(?P<function>\b(?:tt|ttg|ttng|arith|math|scf|cf|gpu|nvvm)\.\w+)"
    r"|(?P<keyword>\b(?:module|attributes|to|step|iter_args|else|loc|dense|true|false)\b)"
    r"|(?P<operator>%[\w#:]+)"
    r"|(?P<number>(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?\b)"
)
#         /*0010*/              @!P0 LDG.E.128 R8, desc[UR4][R2.64] ;
_SASS = re.compile(
    r"(?P<comment>/\*.*?\*/|//.*)"
    r"|(?P<keyword>@!?U?P\w+)"
    r"|(?P<name>\bU?[RP](?:\d+|Z|T)\b|\bSR_[\w.]+)"
    r"|(?P<function>(?<=\s)[A-Z][A-Z0-9]+(?:\.[\w.]+)?(?=\s|$))"
    r"|(?P<attribute>^\.\w+:?)"
    r"|(?P<number>(?<![\w.])-?(?:0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?)\b)"
)
_PATTERNS = {"ir": _IR, "outline": _OUTLINE, "mlir": _MLIR, "sass": _SASS}
_ROLES: dict[str, Role] = {
    "head": "function",
    "attribute": "comment",
    "index": "operator",
    "shape": "operator",
}


_LONGEST = 10_000
"""Characters of a line that is coloured: it takes seconds for lines of 200,000, which nobody reads."""
_GAP = " " * 500
_MOST_TOKENS = 30_000
"""Of a text: some 3,000 lines, in half a second or so; what follows has no colours."""


def highlight(lines: Sequence[str], language: Language) -> list[list[Span]]:
    """One list of spans for each line, in order and without overlap."""
    if (pattern := _PATTERNS.get(language)) is not None:
        return [_pattern_spans(line, pattern) if len(line) <= _LONGEST else [] for line in lines]
    if language == "plain":
        return [[] for _ in lines]
    return _pygments_spans(lines, language)


def _pattern_spans(line: str, pattern: re.Pattern[str]) -> list[Span]:
    spans: list[Span] = []
    for match in pattern.finditer(line):
        kind = match.lastgroup or "name"
        spans.append((match.start(), match.end(), _ROLES.get(kind, kind)))  # type: ignore[arg-type]
    return spans


def _pygments_spans(lines: Sequence[str], language: Language) -> list[list[Span]]:
    result: list[list[Span]] = [[] for _ in lines]
    # Its patterns begin with any white space: what they take for 15,000 empty lines is 10 s.
    rows = [row for row, line in enumerate(lines) if line.strip()]
    text = "\n".join(lines[row] if _is_coloured(lines[row]) else "" for row in rows)
    row = column = 0
    tokens = _lexer(language).get_tokens_unprocessed(f"{text}\n")
    for _, token, value in islice(tokens, _MOST_TOKENS):
        role = _role(token)
        for part in value.splitlines(keepends=True):
            length = len(part) - part.endswith("\n")
            shown = row < len(rows) and _is_coloured(lines[rows[row]]) and not part.isspace()
            if role is not None and length and shown:
                result[rows[row]].append((column, column + length, role))
            if part.endswith("\n"):
                row, column = row + 1, 0
            else:
                column += length
    return result


def _is_coloured(line: str) -> bool:
    return len(line) <= _LONGEST and _GAP not in line


@lru_cache(maxsize=8)
def _lexer(language: Language) -> Lexer:
    """By Pygments' table, which imports the module of one lexer alone."""
    from pygments.lexers import get_lexer_by_name

    return get_lexer_by_name(language)


@lru_cache(maxsize=512)
def _role(token: tuple[str, ...]) -> Role | None:
    """Pygments' token types are nested tuples of names: Token.Name.Function is ("Name", "Function")."""
    kind = tuple(token)
    if kind[:1] == ("Comment",):
        return "comment"
    if kind[:1] == ("Keyword",):
        return "name" if kind[1:] == ("Type",) else "keyword"
    if kind[:2] == ("Literal", "String"):
        return "string"
    if kind[:2] == ("Literal", "Number"):
        return "number"
    if kind[:1] == ("Operator",):
        return "keyword" if kind[1:] == ("Word",) else "operator"
    if kind[:2] in (("Name", "Function"), ("Name", "Decorator")):
        return "function"
    if kind[:2] in (("Name", "Class"), ("Name", "Builtin"), ("Name", "Namespace")):
        return "name"
    return None
