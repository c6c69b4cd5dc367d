"""Lines of `inspector.present` as the command line prints them in a pipe."""

from __future__ import annotations

from collections.abc import Iterable

from inspector.present.spans import Line


def texts(lines: Iterable[Line]) -> list[str]:
    return [line.text.rstrip() for line in lines]


def text(lines: Iterable[Line]) -> str:
    return "\n".join(texts(lines)) + "\n"
