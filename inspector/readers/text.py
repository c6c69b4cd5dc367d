"""Reading files that may be truncated, badly encoded, huge or gone; and reading many of them fast.

What parsers get is bounded here, so that none of them has to ask: no file is larger than MOST_BYTES, no
number longer than `_MOST_DIGITS`, and of JSON no number is beyond what can be calculated with.
"""

from __future__ import annotations

import gc
import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from inspector.files import open_plain
from inspector.model.problem import Problem, Read, told
from inspector.units import size

MOST_BYTES = 512 << 20
"""Of one file. What lies beyond is left out, and said to be."""
MOST_TEXT = 128 << 20
"""Of a file that is parsed as a whole; those of real runs stay far below."""
_MOST_DIGITS = 100
_CHUNK = 4 << 20
_MOST_NULS = 512
"""In a row; a file that was not written out has whole blocks of them."""
_LARGEST = 1e18
_LONG_NUMBER = re.compile(rf"\d{{{_MOST_DIGITS + 1},}}")
_DIGITS_ALIKE = bytes.maketrans(b"0123456789", b"0" * 10)
_LONG_RUN = b"0" * (_MOST_DIGITS + 1)

_T = TypeVar("_T")
_S = TypeVar("_S")


def decode(data: bytes, label: str) -> Read[str]:
    """Bytes as UTF-8 text with `\\n` line ends; undecodable bytes are replaced and reported."""
    problems: tuple[Problem, ...] = ()
    if b"\0" in data:
        # What a crash leaves in place of the end, and what no path and no Python may hold.
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        emptied = data.find(bytes(_MOST_NULS))
        what = (
            "NUL bytes; shown with replacements"
            if emptied < 0
            else "nothing but NUL bytes from some place on"
        )
        problems = (Problem(label, line, what),)
        data = data[: emptied if emptied >= 0 else None].replace(b"\0", "\ufffd".encode())
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems += (
            Problem(label, line, f"not UTF-8 (byte {data[error.start]:#04x}); shown with replacements"),
        )
        text = data.decode("utf-8-sig", errors="replace")
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    # The expression takes a second for 50 MB, a search for a constant a twentieth of that.
    may_be_long = _LONG_RUN in data.translate(_DIGITS_ALIKE) or not text.isascii()
    if may_be_long and (long := _LONG_NUMBER.search(text)) is not None:
        # Python refuses to read numbers of over 4,300 digits, and takes quadratic time below.
        what = f"a number of {len(long[0])} digits; read as one of {_MOST_DIGITS}"
        problems = (*problems, Problem(label, text.count("\n", 0, long.start()) + 1, what))
        text = _LONG_NUMBER.sub(lambda match: match[0][:_MOST_DIGITS], text)
    return text, problems


def read_text(path: Path, label: str | None = None) -> Read[str]:
    """The file's text and what was wrong with it; a file that cannot be read gives empty text."""
    label = str(path) if label is None else label
    data, problems = read_bytes(path, label, MOST_TEXT)
    text, more = decode(data, label)
    return text, (*problems, *more)


def read_bytes(path: Path, label: str, most: int = MOST_BYTES) -> Read[bytes]:
    """The file as it is, as far as `most` bytes; empty where it cannot be read or is no file."""
    try:
        with open_plain(path) as file:
            data = b"".join(_chunks(file, most + 1))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return b"", (Problem(label, None, f"cannot be read: {why}"),)
    if len(data) <= most:
        return data, ()
    return data[:most], (Problem(label, None, f"read up to {size(most)}: the rest is left out"),)


def _chunks(file: BinaryIO, most: int) -> Iterator[bytes]:
    """Up to `most` bytes; a chunk of nothing but NUL bytes, a hole in the file, is the last one."""
    while most > 0 and (chunk := file.read(min(most, _CHUNK))):
        yield chunk
        most -= len(chunk)
        if chunk[-1] == 0 and chunk == bytes(len(chunk)):
            return


def from_json(text: str | bytes) -> Any:  # noqa: ANN401
    """What JSON says; raises ValueError alone, whatever is wrong. NaN and infinity, which Python's reader
    knows, are null, and so are numbers that are too large for a float."""
    try:
        return _JSON.decode(text if isinstance(text, str) else text.decode("utf-8", "replace"))
    except (RecursionError, MemoryError):
        raise ValueError("nested too deeply") from None


def _float(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


_JSON = json.JSONDecoder(parse_constant=lambda _name: None, parse_float=_float)


def guarded(read: Callable[[], _T], instead: _S, label: str, what: str) -> Read[_T | _S]:
    """What `read` makes, or `instead` and a problem: the boundary around what parses or works on a file that
    may say anything. A failure here is a defect of the parser, and no reason to show nothing of a run."""
    try:
        return read(), ()
    except Exception as error:  # noqa: BLE001
        return instead, (Problem(label, None, f"{what} cannot be understood ({told(error)})"),)


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


def keep() -> None:
    """Tell the garbage collector that what was read so far stays.

    A parsed run is a million small objects that live as long as it is open. The collector would walk
    through all of them again and again, a tenth of a second each time, in the middle of a key press. For the
    screens alone, which let go of what they leave: elsewhere nothing would ever be freed.
    """
    gc.freeze()


def let_go() -> None:
    """Free what nobody holds any more, also of what was told to stay: `keep` takes along all that is alive,
    such as screens that are left later and runs that are closed."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def number(value: object) -> float | None:
    """A number of a JSON file that can be calculated with; None for other types, for NaN (which
    Python's JSON has) and for what no count or time can be, as in damaged files."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_LARGEST < value < _LARGEST else None
