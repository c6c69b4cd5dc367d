"""Text that is safe to send to a terminal, and its width there: cleaning, eliding, padding and wrapping."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from unicodedata import category

from rich.cells import cell_len

_TAB = 4
_INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE0F), *range(0xE0100, 0xE01F0))))
)
"""Letters, signs and selectors of no ink, which Python takes for printable (Unicode's
Default_Ignorable_Code_Point); not the selector that makes a sign an emoji."""
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe0f\ufe20-\ufe2f"
)
_FLOOD = re.compile(f"(?<=[{_MARKS}]{{4}})[{_MARKS}]")
"""Marks on one letter beyond what any script puts there: a terminal draws them over the lines around."""
_MANY = 8
_STACK = re.compile(
    "[\u0483-\u1fff\u2c00-\u2dff\u302a-\u302f\u3099\u309a\ua000-\uabff\ud7b0-\ud7fb\ufb1e\ufe20-\ufe2f"
    f"\U00010000-\U0001efff]{{{_MANY + 1},}}"
)
"""Where such a flood may be of any other script's marks."""
_JAMO = re.compile("[\u1160-\u11ff\ud7b0-\ud7fb]")
"""Hangul's parts that take no room of their own."""


def is_printable(text: str) -> bool:
    """Whether all of it is ink or spaces: no control or format character, separator or invisible letter, and
    no more than a few marks on one letter."""
    return text.isprintable() and (
        text.isascii() or (_INVISIBLE.isdisjoint(text) and next(_floods(text), None) is None)
    )


def _floods(text: str) -> Iterator[int]:
    """Where marks stand that are too many."""
    yield from (match.start() for match in _FLOOD.finditer(text))
    for match in _STACK.finditer(text):
        marks = 0
        for place, char in enumerate(match[0], match.start()):
            marks = marks + 1 if category(char)[0] == "M" or _JAMO.match(char) else 0
            if marks > _MANY:
                yield place


def escaped(text: str, escape: Callable[[str], str]) -> str:
    """`text` with `escape` of each character that is not printable where it stands."""
    bad = {ord(char): escape(char) for char in set(text) if not is_printable(char)}
    floods = () if text.isascii() else frozenset(_floods(text))
    if not floods:
        return text.translate(bad)
    return "".join(
        escape(char) if place in floods else bad.get(ord(char), char) for place, char in enumerate(text)
    )


def clean(text: str) -> str:
    """One line that a terminal draws and never obeys: what is not printable is escaped as in Python's source.

    An escape character becomes `\\x1b`, a line break `\\n`, an override of the reading direction `\\u202e`.
    Tabs become spaces. Cleaning again changes nothing.
    """
    if is_printable(text):
        return text
    if "\t" in text:
        text = text.expandtabs(_TAB)
    return escaped(text, lambda char: char.encode("unicode_escape").decode("ascii"))


_SIGNS = dict.fromkeys("█▏▎▍▌▋▊▉▶", "#") | {
    "─": "-", "│": "|", "·": "|", "…": "..", "±": "+-", "→": "->", "←": "<-", "↳": "->", "⤷": "->",
    "↔": "<->", "✓": "ok", "✗": "x", "≈": "~", "↓": "v", "↑": "^", "▸": ">", "“": '"', "”": '"', "×": "x",
}  # fmt: skip
"""What stands for our own signs where an encoding has none of them."""
_CELLS = _SIGNS | dict.fromkeys("╭╮╰╯", "+") | {
    "▁": "_", "▂": "_", "▃": "_", "▄": "_", "▅": "_", "▆": "_", "▇": "#", "▎": "|", "…": "~", "±": "~",
    "→": ">", "←": "<", "↳": ">", "⤷": ">", "↔": "=", "✓": "v",
}  # fmt: skip


def plain_signs(error: UnicodeError) -> tuple[str, int]:
    """An error handler of codecs: our signs in ASCII, a question mark for any other letter."""
    return _in_ascii(error, _SIGNS)


def plain_cells(error: UnicodeError) -> tuple[str, int]:
    """The same for a screen, where each sign keeps to its cell."""
    return _in_ascii(error, _CELLS)


def _in_ascii(error: UnicodeError, signs: Mapping[str, str]) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(signs.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


def one_line(text: str) -> str:
    """`text` of several lines in one, cleaned: an error message, a remark."""
    return clean(" ".join(text.split()))


_LONG = 1000
"""Characters that are counted each before they are measured once each."""


def cells(text: str) -> int:
    """The terminal's cells that `text` takes: two for a wide character, none for a combining mark."""
    if text.isascii():
        return len(text)
    if len(text) <= _LONG:
        return cell_len(text)
    # Of a million characters few differ.
    return sum(cell_len(char) * count for char, count in Counter(text).items())


def _enough(there: int, width: int, taken: Callable[[int], int]) -> int:
    """So many of the characters that are `there` as take more than `width` cells, or all: the rest of a long
    text is then not measured. `taken` has the cells of a number of them."""
    size = max(width, 0) + 1
    while size < there and taken(size) <= width:
        size *= 2
    return min(size, there)


def fitting(text: str, width: int, start: int = 0) -> int:
    """How many characters from `start` on fit into `width` cells; marks stay with their letter."""
    if text.isascii():
        return max(0, min(len(text) - start, width))
    size = _enough(len(text) - start, width, lambda size: cells(text[start : start + size]))
    return bisect_right(range(size + 1), width, key=lambda end: cells(text[start : start + end])) - 1


def crop(text: str, width: int) -> str:
    """`text` in at most `width` cells, an ellipsis in place of its end."""
    text = clean(text)
    if cells(text) <= width:
        return text
    return f"{text[: fitting(text, width - 1)]}…" if width > 0 else ""


def elide(text: str, width: int) -> str:
    """`text` in at most `width` cells, cut in the middle, where names differ least."""
    text = clean(text)
    if cells(text) <= width:
        return text
    if width < 5:
        return text[: max(0, fitting(text, width))]
    head = (width - 1) * 2 // 3
    return f"{text[: fitting(text, head)]}…{tail(text, width - 1 - head)}"


def tail(text: str, width: int) -> str:
    """The end of `text` in at most `width` cells; no mark without its letter."""
    if text.isascii():
        return text[len(text) - width :] if width < len(text) else text
    least = len(text) - _enough(len(text), width, lambda size: cells(text[-size:]))
    start = bisect_left(range(least, len(text) + 1), -width, key=lambda begin: -cells(text[begin:])) + least
    while 0 < start < len(text) and not cells(text[start]):
        start += 1
    return text[start:]


def pad(text: str, width: int, right: bool = False) -> str:
    """`text` with spaces up to `width` cells, before it where `right`."""
    blanks = " " * (width - cells(text))
    return blanks + text if right else text + blanks


def wrap(
    text: str, width: int, indent: str = "", hang: str | None = None, break_words: bool = True
) -> list[str]:
    """Lines of at most `width` cells; further ones begin with `hang`, by default `indent`. A word that is too
    long is broken, unless it shall stay whole, so that it can be copied."""
    hang = indent if hang is None else hang
    lines: list[str] = []
    line, empty = indent, True
    for gap, word in re.findall(r"( *)([^ ]+)", clean(text).rstrip(" ")):
        gap = "" if empty else gap
        if not empty and cells(line) + len(gap) + cells(word) > width:
            lines.append(line)
            line, gap, empty = hang, "", True
        start = 0
        while break_words and empty:
            fits = max(1, fitting(word, width - cells(line), start))
            if start + fits >= len(word):
                break
            lines.append(line + word[start : start + fits])
            line, start = hang, start + fits
        line, empty = f"{line}{gap}{word[start:]}", False
    return lines if empty else [*lines, line]


def cut(lines: Sequence[str], most: int) -> list[str]:
    """At most `most` lines; an ellipsis ends the last one where more were left out."""
    kept = list(lines[:most])
    if len(lines) > most:
        words, _, last = kept[-1].rpartition(" ")
        kept[-1] = f"{words} …" if words.strip() and last else f"{kept[-1][:-1]}…"
    return kept


def headline(text: str) -> str:
    """The first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def sentence(text: str) -> str:
    """With a capital letter and a full stop; a name of the program's that it begins with stays as it is."""
    if text.partition(" ")[0].strip(",:;?").isalpha():
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", ":")) else f"{text}."


def joined(parts: Sequence[str], limit: int) -> str:
    """`a, b and 3 more`."""
    more = f" and {len(parts) - limit} more" if len(parts) > limit else ""
    return ", ".join(parts[:limit]) + more


def few(names: Sequence[str], limit: int = 2) -> str:
    """`amax, sub +3`."""
    more = f" +{len(names) - limit}" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def spaced(name: str) -> str:
    """`outer loop` for `outer_loop`: a name of the contract as people write it."""
    return name.replace("_", " ")


def file_name(path: str) -> str:
    """The last part of a path of whatever system, with the line behind it."""
    return path.replace("\\", "/").rsplit("/", 1)[-1]
