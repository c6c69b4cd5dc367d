"""Tar archives, plain and packed, from their first byte to their last, by what their headers say.

Headers of any size, sizes below zero and chains of headers that extend each other cost nothing here. Python's
tarfile reads such records whole, goes back and forth for ever (CVE-2025-8194), searches them in quadratic
time (CVE-2024-6232), and calls itself for each. The format: POSIX.1-2017, pax; GNU tar's manual, "Basic Tar
Format" and "GNU Extensions to the Archive Format".
"""

from __future__ import annotations

import bz2
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Literal, NamedTuple, Protocol

MOST_HEADER = 1 << 20
"""Bytes of a record that extends a header: a long name, PAX."""
MOST_STREAMS = 70_000
"""That were packed one by one and joined; `bgzip` packs every 64 KiB of at most 4 GiB."""
MOST_MEMORY = 256 << 20
"""For unpacking .xz, whose author chooses it; `xz -9` takes 65 MiB."""

_BLOCK = 512
_CHUNK = 1 << 18
_PIECE = 1 << 14
"""Of what is packed: what is left of one is copied for each stream in it."""
_MOST_IN_A_ROW = 16
"""Records that extend one header, or all."""
_NO_HEADER = "no header of a tar archive where one belongs"
_MOST_BEHIND = 1 << 20
"""Bytes behind the end; GNU tar fills up 10 KiB, so that a stream's checksum is still looked at."""
_PAX_PATH = re.compile(rb"(?:\A|\n)\d{1,7} path=([^\n]*)\n")
_PAX_OTHER = re.compile(rb"(?:\A|\n)\d{1,7} (size|GNU\.sparse\.[a-z]{1,9})=")
_KINDS: dict[bytes, Literal["file", "folder", "link", "special"]] = {
    b"0": "file", b"\0": "file", b"7": "file", b"5": "folder", b"1": "link", b"2": "link",
}  # fmt: skip


class Damaged(Exception):
    """It is no tar archive, or not a whole one; half a sentence that says so."""


class Refused(Exception):
    """It may be whole, and is like none of a run; half a sentence that says why."""


class Stream(Protocol):
    """Bytes that are read once."""

    def read(self, count: int) -> bytes:
        """So many bytes, fewer at the end."""

    def skip(self, count: int) -> None:
        """Raises Damaged where there are fewer."""


class Member(NamedTuple):
    """What a header says. `size` in bytes is that of a file, `records` of what extended its header."""

    name: str
    kind: Literal["file", "folder", "link", "special"]
    size: int
    records: int


def stream_of(file: BinaryIO) -> Stream:
    """The unpacked bytes of a file, whatever its name says it is packed with."""
    start = file.read(6)
    file.seek(0)
    if start[:2] == b"\x1f\x8b":
        return _Packed(file, _Gzip)
    if start[:3] == b"BZh":
        return _Packed(file, bz2.BZ2Decompressor)
    if start == b"\xfd7zXZ\0" or start[:3] == b"]\0\0":
        return _Packed(file, lambda: lzma.LZMADecompressor(memlimit=MOST_MEMORY))
    if start[:4] == b"\x28\xb5\x2f\xfd":
        raise Refused("it is packed with zstd: unpack it by hand and open the folder")
    return _Plain(file)


class Tar:
    """The members of an archive one after the other; `read` gives bytes of the one that came last.

    Raises Damaged and Refused.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._left = 0
        self._filling = 0
        self._of_all = 0

    def __iter__(self) -> Iterator[Member]:
        while (member := self._next()) is not None:
            yield member
            self._stream.skip(self._left + self._filling)
            self._left = self._filling = 0
        behind = _MOST_BEHIND
        while behind > 0 and (data := self._stream.read(_CHUNK)):
            behind -= len(data)

    def read(self, count: int) -> bytes:
        """At most so many bytes of the member; none at its end."""
        data = self._stream.read(min(count, self._left))
        if not data and self._left:
            raise Damaged("it is cut short")
        self._left -= len(data)
        return data

    _empty = True
    """Nothing was read yet."""

    def _next(self) -> Member | None:
        """The next member; None at the end."""
        long_name: bytes | None = None
        records = 0
        for _ in range(_MOST_IN_A_ROW):
            header = self._stream.read(_BLOCK)
            if len(header) == _BLOCK and not header.strip(b"\0"):
                self._empty = False
                return None
            if self._empty and len(header) < _BLOCK:
                raise Damaged(_NO_HEADER if header else "an empty file")
            self._empty = False
            size = _checked(header)
            kind, name = header[156:157], _text(header[:100])
            if kind not in b"xgLKX":
                if long_name is not None:
                    name = long_name
                elif header[257:263] == b"ustar\0" and header[345:346] != b"\0":
                    name = _text(header[345:500]) + b"/" + name
                return self._member(kind, name, size, records)
            if size > MOST_HEADER:
                raise Refused(f"a header of {size >> 20} MiB")
            records += size
            record = self._stream.read(size)
            self._stream.skip(-size % _BLOCK)
            if len(record) < size:
                raise Damaged("it is cut short")
            self._of_all += kind == b"g"
            if self._of_all > _MOST_IN_A_ROW:
                raise Refused("headers without end")
            if kind == b"L":
                long_name = _text(record)
            elif kind in b"xX":
                if (other := _PAX_OTHER.search(record)) is not None:
                    raise Refused(f"a header that says {other[1].decode()}")
                paths = _PAX_PATH.findall(record)
                long_name = paths[-1] if paths else long_name
        raise Refused("headers without end")

    def _member(self, kind: bytes, name: bytes, size: int, records: int) -> Member:
        what = _KINDS.get(kind, "special")
        if kind == b"\0" and name.endswith(b"/"):
            what = "folder"
        self._left = size if what == "file" else 0
        self._filling = -self._left % _BLOCK
        return Member(name.decode("utf-8", "surrogateescape"), what, self._left, records)


def _text(field: bytes) -> bytes:
    return field.split(b"\0", 1)[0]


def _checked(header: bytes) -> int:
    """The size that a header says, once its sum is right."""
    if len(header) < _BLOCK:
        raise Damaged("it is cut short")
    try:
        told = _octal(header[148:156])
        size = header[124:136]
        count = int.from_bytes(size[1:], "big") if size[0] == 0x80 else _octal(size)
    except ValueError:
        raise Damaged(_NO_HEADER) from None
    if told != _sum(header[:148]) + 8 * ord(" ") + _sum(header[156:334]) + _sum(header[334:]):
        raise Damaged(_NO_HEADER)
    if count < 0:
        raise Refused("a member of a size below zero")
    return count


def _sum(data: bytes) -> int:
    """Of at most 256 bytes, by C: the lower half of Adler's checksum is one more than their sum."""
    return (zlib.adler32(data) & 0xFFFF) - 1


def _octal(field: bytes) -> int:
    if field[0] == 0xFF:
        return -1
    return int(_text(field).strip() or b"0", 8)


class _Plain:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self.read = file.read

    def skip(self, count: int) -> None:
        if count and self._file.seek(count, os.SEEK_CUR) > self._size:
            raise Damaged("it is cut short")


class _Decompressor(Protocol):
    """As bz2 and lzma have it."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Gzip:
    """zlib's with its checksum, as a `_Decompressor`."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


class _Packed:
    """Streams of one kind, joined, with zeros behind them at most."""

    def __init__(self, file: BinaryIO, make: Callable[[], _Decompressor]) -> None:
        self._file = file
        self._make = make
        self._inner = make()
        self._streams = 1
        self._ready = bytearray()
        self._ended = False

    def read(self, count: int) -> bytes:
        while len(self._ready) < count and not self._ended:
            self._unpack_more()
        data = bytes(self._ready[:count])
        del self._ready[:count]
        return data

    def skip(self, count: int) -> None:
        while count > 0:
            data = self.read(min(count, _CHUNK))
            if not data:
                raise Damaged("it is cut short")
            count -= len(data)

    def _unpack_more(self) -> None:
        inner, data = self._inner, b""
        if inner.eof:
            data = inner.unused_data or self._file.read(_PIECE)
            while data and not data.strip(b"\0"):
                data = self._file.read(_PIECE)
            if not data:
                self._ended = True
                return
            self._streams += 1
            if self._streams > MOST_STREAMS:
                raise Refused(f"more than {MOST_STREAMS} streams")
            inner = self._inner = self._make()
            data = data.lstrip(b"\0")
        elif inner.needs_input:
            data = self._file.read(_PIECE)
            if not data:
                raise Damaged("it is cut short")
        try:
            self._ready += inner.decompress(data, _CHUNK)
        except lzma.LZMAError as error:
            if "emory" not in str(error):
                raise
            raise Refused(f"to unpack it takes more than {MOST_MEMORY >> 20} MiB of memory") from None
