"""Reading files that may be truncated, badly encoded or gone; and reading many of them fast."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inspector.model.problem import Problem, Read

_LARGEST = 1e18


def decode(data: bytes, label: str) -> Read[str]:
    """Bytes as UTF-8 text with `\\n` line ends; undecodable bytes are replaced and reported."""
    problems: tuple[Problem, ...] = ()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems = (
            Problem(label, line, f"not UTF-8 (byte {data[error.start]:#04x}); shown with replacements"),
        )
        text = data.decode("utf-8-sig", errors="replace")
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return text, problems


def read_text(path: Path, label: str | None = None) -> Read[str]:
    """The file's text and what was wrong with it; a file that cannot be read gives empty text."""
    label = str(path) if label is None else label
    data, problems = read_bytes(path, label)
    return decode(data, label) if not problems else ("", problems)


def read_bytes(path: Path, label: str) -> Read[bytes]:
    """The file as it is; empty where it cannot be read."""
    try:
        return path.read_bytes(), ()
    except OSError as error:
        return b"", (Problem(label, None, f"cannot be read: {error.strerror or error}"),)


@contextmanager
def collection_paused() -> Iterator[None]:
    """No garbage collection while much is parsed: all that is made stays, and looking through it again
    and again would take a sixth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def number(value: object) -> float | None:
    """A number of a JSON file that can be calculated with; None for other types, for NaN (which
    Python's JSON has) and for what no count or time can be, as in damaged files."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_LARGEST < value < _LARGEST else None
