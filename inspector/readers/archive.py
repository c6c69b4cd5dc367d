"""Archives of runs: unpacked into a temporary folder, after every member has been looked at.

Nothing in an archive is trusted: a member that would land outside the folder, a link, a device, names without
end, or more members and bytes than any run has refuse the whole archive, before anything of it is on the disk
where its own table or headers tell. The folder goes when the program ends, by a signal, too.
"""

from __future__ import annotations

import atexit
import bz2
import gzip
import lzma
import os
import shutil
import signal
import struct
import tarfile
import tempfile
import threading
import zipfile
from pathlib import Path, PurePosixPath
from types import FrameType
from typing import IO, BinaryIO, cast

from inspector.files import open_plain
from inspector.model.problem import InspectorError

MAX_BYTES = 4 << 30
MAX_MEMBERS = 200_000
MAX_RATIO = 1000
"""Unpacked over packed size, looked at beyond 64 MiB; logs of real runs stay below 300."""
MAX_DEPTH = 64
MAX_NAME = 4096
MAX_HEADER = 1 << 20
"""Bytes of a header: a PAX record or a long name."""

_RATIO_FROM = 64 << 20
_CHUNK = 1 << 20
_BLOCK = 512
_EXTENDING = b"xgLKX"
"""Types of tar headers that say something of the next one and are no members themselves."""
_WITH_DATA = b"07xgLKXS\0"

_unpacked: list[Path] = []


def unpack(archive: Path) -> Path:
    """Unpack into a new temporary folder, which is removed when the program ends.

    Raises InspectorError for anything unsafe or unreadable; nothing is left behind then.
    """
    target = Path(tempfile.mkdtemp(prefix="inspector-"))
    _unpacked.append(target)
    _remove_on_signals()
    try:
        budget = _Budget(archive)
        if archive.name.lower().endswith(".zip"):
            _unpack_zip(archive, target, budget)
        else:
            _unpack_tar(archive, target, budget)
    except InspectorError:
        shutil.rmtree(target, ignore_errors=True)
        raise
    except Exception as error:
        shutil.rmtree(target, ignore_errors=True)
        raise InspectorError(
            f"{archive}: not a readable archive ({_first_line(error)}); copy it again, or unpack it by hand"
        ) from error
    return target


def remove_unpacked() -> None:
    """Remove every folder that `unpack` made; runs by itself when the interpreter ends in the usual way."""
    while _unpacked:
        shutil.rmtree(_unpacked.pop(), ignore_errors=True)


atexit.register(remove_unpacked)


def _remove_on_signals() -> None:
    """What ends the program at once by default still does, after the folders are gone."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _remove_and_end)


def _remove_and_end(number: int, _frame: FrameType | None) -> None:
    remove_unpacked()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(": ")


class _Budget:
    """Counts members and bytes really written, and refuses what no run would need."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive
        self.packed = max(archive.stat().st_size, 1)
        self.bytes = 0
        self.members = 0

    def member(self, count: int = 1) -> None:
        self.members += count
        if self.members > MAX_MEMBERS:
            raise InspectorError(f"{self.archive}: refused: more than {MAX_MEMBERS} members")

    def spend(self, count: int) -> None:
        self.bytes += count
        too_dense = self.bytes > _RATIO_FROM and self.bytes > MAX_RATIO * self.packed
        if self.bytes > MAX_BYTES or too_dense:
            raise InspectorError(
                f"{self.archive}: refused: unpacks to more than {self.bytes >> 20} MiB "
                f"from {self.packed} bytes; if you trust it, unpack it by hand and open the folder"
            )


class _Stream:
    """The unpacked bytes of a tar archive, as tarfile wants them. No single read is larger than a header may
    be: tarfile reads long names and PAX records whole, whatever their size."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._packed = open_plain(archive)
        start = self._packed.read(6)
        self._packed.seek(0)
        self._bytes: BinaryIO = self._packed
        if start[:2] == b"\x1f\x8b":
            self._bytes = cast(BinaryIO, gzip.GzipFile(fileobj=self._packed))
        elif start[:3] == b"BZh":
            self._bytes = cast(BinaryIO, bz2.BZ2File(self._packed))
        elif start == b"\xfd7zXZ\0" or start[:3] == b"]\0\0":
            self._bytes = cast(BinaryIO, lzma.LZMAFile(self._packed))  # noqa: SIM115

    def read(self, count: int = -1) -> bytes:
        if not 0 <= count <= max(MAX_HEADER, _CHUNK) + _BLOCK:
            raise InspectorError(f"{self._archive}: refused: a header of {count >> 20} MiB")
        return self._bytes.read(count)

    def seek(self, place: int, whence: int = 0) -> int:
        return self._bytes.seek(place, whence)

    def tell(self) -> int:
        return self._bytes.tell()

    def close(self) -> None:
        self._bytes.close()
        self._packed.close()

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _look_through_tar(archive: Path, budget: _Budget) -> None:
    """Members and bytes by the headers alone, a hundred times as fast as tarfile; what is wrong with a header
    is for tarfile to say."""
    with _Stream(archive) as stream:
        while len(header := stream.read(_BLOCK)) == _BLOCK and header.strip(b"\0"):
            kind, field = header[156:157], header[124:136]
            try:
                base256 = field[0] & 0x80
                count = int.from_bytes(field[1:], "big") if base256 else int(field.strip(b" \0") or b"0", 8)
            except ValueError:
                return
            if kind in _EXTENDING:
                if count > MAX_HEADER:
                    raise InspectorError(f"{archive}: refused: a header of {count >> 20} MiB")
            else:
                budget.member()
            rest = -(-count // _BLOCK) * _BLOCK if kind in _WITH_DATA else 0
            while rest > 0:
                data = stream.read(min(rest, _CHUNK))
                if not data:
                    return
                # What fills the last block up is none of the member's.
                budget.spend(min(len(data), max(0, count)))
                rest, count = rest - len(data), count - len(data)


def _unpack_tar(archive: Path, target: Path, budget: _Budget) -> None:
    _look_through_tar(archive, _Budget(archive))
    with _Stream(archive) as stream, tarfile.open(fileobj=cast(BinaryIO, stream), mode="r:") as tar:
        for member in tar:
            budget.member()
            # tarfile keeps them all for a second look, which nobody takes.
            tar.members = []  # type: ignore[attr-defined]
            if member.isdir():
                _destination(archive, target, member.name).mkdir(parents=True, exist_ok=True)
                continue
            if not member.isreg() or member.issparse():
                what = "a link" if member.issym() or member.islnk() else "a special file"
                raise InspectorError(f"{archive}: refused: member {_shown(member.name)} is {what}")
            source = tar.extractfile(member)
            if source is not None:
                with source:
                    _copy(source, _destination(archive, target, member.name), budget)


def _unpack_zip(archive: Path, target: Path, budget: _Budget) -> None:
    _Budget(archive).member(_zip_entries(archive))
    with open_plain(archive) as file, zipfile.ZipFile(file) as bundle:
        # No member yields more than its entry in the table says.
        told = _Budget(archive)
        for info in bundle.infolist():
            told.member()
            told.spend(info.file_size)
        for info in bundle.infolist():
            budget.member()
            destination = _destination(archive, target, info.filename)
            if info.is_dir():
                destination.mkdir(parents=True, exist_ok=True)
                continue
            # The upper half of external_attr holds the Unix mode; 0o12 is a symbolic link.
            if (info.external_attr >> 28) == 0o12:
                raise InspectorError(f"{archive}: refused: member {_shown(info.filename)} is a link")
            with bundle.open(info) as source:
                _copy(source, destination, budget)


def _zip_entries(archive: Path) -> int:
    """How many entries the end of a zip file announces; 0 where it is not understood."""
    with open_plain(archive) as file:
        file.seek(max(0, archive.stat().st_size - (1 << 17)))
        end = file.read()
    place, large = end.rfind(b"PK\5\6"), end.rfind(b"PK\6\6")
    try:
        if large >= 0:
            return int(struct.unpack_from("<Q", end, large + 32)[0])
        return int(struct.unpack_from("<H", end, place + 10)[0]) if place >= 0 else 0
    except struct.error:
        return 0


def _shown(name: str) -> str:
    return repr(name if len(name) <= 100 else f"{name[:100]}…")


def _destination(archive: Path, target: Path, name: str) -> Path:
    """Where a member goes; refuses absolute names, drive letters and any way upwards."""
    posix = PurePosixPath(name[:MAX_NAME].replace("\\", "/"))
    if not posix.parts and name not in (".", "./"):
        raise InspectorError(f"{archive}: refused: a member without a name")
    if len(name) > MAX_NAME or len(posix.parts) > MAX_DEPTH:
        raise InspectorError(f"{archive}: refused: member {_shown(name)} has a name without end")
    if posix.is_absolute() or ".." in posix.parts or ":" in (posix.parts[0] if posix.parts else ""):
        raise InspectorError(f"{archive}: refused: member {_shown(name)} would land outside the folder")
    return target.joinpath(*posix.parts)


def _copy(source: IO[bytes], destination: Path, budget: _Budget) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    with destination.open("wb") as sink:
        while chunk := source.read(_CHUNK):
            budget.spend(len(chunk))
            sink.write(chunk)
