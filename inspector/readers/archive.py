"""Archives of runs: unpacked into a temporary folder, after every member has been looked at.

Nothing in an archive is trusted: a member that would land outside the folder, a link, a device, names
without end, or more members and bytes than any run has refuse the whole archive, before anything of it is on
the disk.
The folder goes when the program ends, by a signal, too; where it was killed, with the next one.
"""

from __future__ import annotations

import atexit
import errno
import os
import struct
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Protocol

from inspector.files import open_plain
from inspector.model.problem import InspectorError
from inspector.temporary import remove_on_signals, temporary_folder

from .tar import Refused, Tar, stream_of

MAX_BYTES = 4 << 30
MAX_MEMBERS = 200_000
MAX_RATIO = 1000
"""Unpacked over packed size, looked at beyond 64 MiB; logs of real runs stay below 300."""
MAX_DEPTH = 64
MAX_NAME = 4096

_RATIO_FROM = 64 << 20
_CHUNK = 1 << 20
_FIRST_MEMBERS = 200
_FIRST_BYTES = 1 << 20
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ELSEWHERE = "TMPDIR=FOLDER names another place for it"
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
"""The fourth, LZMA, takes as much memory as its author says."""

_unpacked: list[ExitStack] = []
_reading: dict[Path, tuple[BinaryIO, float, float]] = {}
"""Archives that are being unpacked, and between which parts of that, 0 to 1, the file is read once."""


def unpack(archive: Path) -> Path:
    """Unpack into a new temporary folder, which is removed when the program ends.

    Raises InspectorError for anything unsafe or unreadable; nothing is left behind then.
    """
    stack = ExitStack()
    _unpacked.append(stack)
    remove_on_signals()
    try:
        with _understood(archive), open_plain(archive) as file:
            start = file.read(4)
        try:
            target = stack.enter_context(temporary_folder("inspector-run-")) / "files"
            target.mkdir()
        except OSError as error:
            raise InspectorError(
                f"{archive}: no folder to unpack it in: {error.strerror}; {_ELSEWHERE}"
            ) from error
        with _understood(archive):
            is_zip = archive.name.lower().endswith((".zip", ".pt2")) or start in (b"PK\3\4", b"PK\5\6")
            (_unpack_zip if is_zip else _unpack_tar)(archive, target)
    except BaseException:
        stack.close()
        raise
    return target


def part_unpacked(archive: Path | None = None) -> tuple[float, int] | None:
    """How far it is while an archive, None for any, is unpacked in another thread: the part, 0 to 1, by the
    bytes read of it, and the packed bytes in all; None where none is."""
    reading = next(iter(_reading.values()), None) if archive is None else _reading.get(archive)
    with suppress(OSError, ValueError):  # closed meanwhile
        if reading is not None:
            file, start, end = reading
            size = max(1, os.fstat(file.fileno()).st_size)
            return start + (end - start) * os.lseek(file.fileno(), 0, os.SEEK_CUR) / size, size
    return None


@contextmanager
def _watched(archive: Path, start: float = 0.0, end: float = 1.0) -> Iterator[BinaryIO]:
    """The archive's bytes, while `part_unpacked` says how far they were read."""
    with open_plain(archive) as file:
        _reading[archive] = file, start, end
        try:
            yield file
        finally:
            del _reading[archive]


def first_names(archive: Path) -> list[str]:
    """Names of its first members, by headers alone; none of what cannot be read."""
    names: list[str] = []
    try:
        with open_plain(archive) as file:
            if archive.name.lower().endswith((".zip", ".pt2")):
                _check_table(file.fileno())
                with zipfile.ZipFile(file) as bundle:
                    return bundle.namelist()[:_FIRST_MEMBERS]
            left = _FIRST_BYTES
            for member in Tar(stream_of(file)):
                names.append(member.name)
                left -= member.size + member.records
                if left <= 0 or len(names) == _FIRST_MEMBERS:
                    break
    except Exception:  # noqa: BLE001 - whatever a damaged archive makes its codec do, it is no run
        return names
    return names


def remove_unpacked() -> None:
    """Remove every folder that `unpack` made; runs by itself when the interpreter ends in the usual way."""
    while _unpacked:
        _unpacked.pop().close()


atexit.register(remove_unpacked)


@contextmanager
def _understood(archive: Path) -> Iterator[None]:
    """What goes wrong with an archive, in one line."""
    try:
        yield
    except InspectorError:
        raise
    except Refused as error:
        raise InspectorError(f"{archive}: refused: {error}") from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            raise InspectorError(f"{archive}: cannot be unpacked: {error.strerror}; {_ELSEWHERE}") from error
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(": ")
        raise InspectorError(
            f"{archive}: not a readable archive ({reason}); copy it again, or unpack it by hand"
        ) from error


class _Budget:
    """Counts members, folders and bytes, and refuses what no run would need."""

    def __init__(self, archive: Path) -> None:
        self._packed = max(archive.stat().st_size, 1)
        self._bytes = 0
        self._members = 0
        self._folders: set[tuple[str, ...]] = set()

    def add(self, name: str, size: int) -> None:
        """A member as its header or the table has it, and the folders that it lies in."""
        parts = tuple(_parts(name))
        self._members += 1
        while (parts := parts[:-1]) and parts not in self._folders:
            self._folders.add(parts)
        if self._members + len(self._folders) > MAX_MEMBERS:
            raise Refused(f"more than {MAX_MEMBERS} members")
        self.spend(size)

    def spend(self, count: int) -> None:
        self._bytes += count
        too_dense = self._bytes > _RATIO_FROM and self._bytes > MAX_RATIO * self._packed
        if self._bytes > MAX_BYTES or too_dense:
            raise Refused(
                f"unpacks to more than {self._bytes >> 20} MiB from {self._packed} bytes; "
                "if you trust it, unpack it by hand and open the folder"
            )


class _Source(Protocol):
    def read(self, count: int, /) -> bytes: ...


def _add(root: Path, name: str, source: _Source | None, budget: _Budget) -> None:
    """Write a file, or make the folder `name` where there is no `source`. The archive may be another one than
    a moment ago: what is written is counted, too."""
    path = root.joinpath(*_parts(name))
    budget.add(name, 0)
    try:
        (path if source is None else path.parent).mkdir(parents=True, exist_ok=True)
        if source is not None:
            _copy(source, path, budget)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise Refused(f"member {_shown(name)} is a file and a folder") from None


def _copy(source: _Source, path: Path, budget: _Budget) -> None:
    with path.open("wb") as sink:
        while chunk := source.read(_CHUNK):
            budget.spend(len(chunk))
            sink.write(chunk)


def _shown(name: str) -> str:
    return repr(name if len(name) <= 100 else f"{name[:100]}…")


def _parts(name: str) -> list[str]:
    """A member's name taken apart; refuses absolute names, drive letters and any way upwards."""
    posix = name[:MAX_NAME].replace("\\", "/")
    parts = [part for part in posix.split("/") if part not in ("", ".")]
    if not parts and name not in (".", "./"):
        raise Refused("a member without a name")
    if len(name) > MAX_NAME or len(parts) > MAX_DEPTH:
        raise Refused(f"member {_shown(name)} has a name without end")
    if posix.startswith("/") or ".." in parts or (parts and ":" in parts[0]):
        raise Refused(f"member {_shown(name)} would land outside the folder")
    return parts


def _unpack_tar(archive: Path, target: Path) -> None:
    budget = _Budget(archive)
    with _watched(archive, end=0.5) as file:
        for member in Tar(stream_of(file)):
            budget.add(member.name, member.size + member.records)
            if member.kind in ("link", "special"):
                what = "a link" if member.kind == "link" else "a special file"
                raise Refused(f"member {_shown(member.name)} is {what}")
    written = _Budget(archive)
    with _watched(archive, start=0.5) as file:
        tar = Tar(stream_of(file))
        for member in tar:
            _add(target, member.name, tar if member.kind == "file" else None, written)


def _unpack_zip(archive: Path, target: Path) -> None:
    with _watched(archive) as file:
        _check_table(file.fileno())
        with zipfile.ZipFile(file) as bundle:
            # No member yields more than its entry in the table says.
            told = _Budget(archive)
            package = archive.suffix.lower() == ".pt2"
            for info in bundle.infolist():
                told.add(info.filename, 0 if _is_weight(info, package) else info.file_size)
                # The upper half of external_attr holds the Unix mode; 0o12 is a symbolic link.
                if (info.external_attr >> 28) == 0o12:
                    raise Refused(f"member {_shown(info.filename)} is a link")
                if info.compress_type not in _ZIP_METHODS:
                    raise Refused(f"member {_shown(info.filename)} is packed as those of no run are")
            written = _Budget(archive)
            for info in bundle.infolist():
                if info.is_dir():
                    _add(target, info.filename, None, written)
                    continue
                if _is_weight(info, package):
                    _add(target, info.filename, BytesIO(), written)
                    os.truncate(target.joinpath(*_parts(info.filename)), min(info.file_size, MAX_BYTES))
                    continue
                with bundle.open(info) as source:
                    _add(target, info.filename, source, written)


def _is_weight(info: zipfile.ZipInfo, package: bool) -> bool:
    """Whether a member of a package is neither text nor a folder: libraries and weights, which may have many
    GB and which nothing reads, get a file of their size without anything in it."""
    return package and not info.is_dir() and not info.filename.endswith((".cpp", ".h", ".json", ".py"))


_MOST_TABLE = 64 << 20
"""Bytes of all entries: 300 for each of as many as may be."""


def _check_table(descriptor: int) -> None:
    """Refuse a table that zipfile would read for seconds; one that is not understood is for it to say."""
    size = os.fstat(descriptor).st_size
    start = max(0, size - (1 << 17))
    end = os.pread(descriptor, size - start, start)
    place = end.rfind(b"PK\5\6")
    large = place - 76
    try:
        count, length = struct.unpack_from("<HI", end, place + 10) if place >= 0 else (0, 0)
        if large >= 0 and end[large : large + 4] == b"PK\6\6" and end[place - 20 : place - 16] == b"PK\6\7":
            count, length = struct.unpack_from("<QQ", end, large + 32)
            place = large
    except struct.error:
        return
    if length > _MOST_TABLE:
        raise Refused(f"a table of {length >> 20} MiB")
    # The number may be a lie; the entries stand right before the end.
    table = os.pread(descriptor, length, max(0, start + place - length))
    if max(count, table.count(b"PK\1\2")) > MAX_MEMBERS:
        raise Refused(f"more than {MAX_MEMBERS} members")
