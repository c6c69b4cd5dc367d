"""Archives of runs: unpacked into a temporary folder, after every member has been looked at.

Nothing in an archive is trusted: a member that would land outside the folder, a link, a device, or
more bytes than any run has refuses the whole archive, before or while it is unpacked.
"""

from __future__ import annotations

import atexit
import lzma
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from inspector.model.problem import InspectorError

MAX_BYTES = 4 << 30
MAX_MEMBERS = 200_000
MAX_RATIO = 1000
"""Unpacked over packed size, looked at beyond 64 MiB; logs of real runs stay below 300."""

_RATIO_FROM = 64 << 20
_CHUNK = 1 << 20

_unpacked: list[Path] = []


def unpack(archive: Path) -> Path:
    """Unpack into a new temporary folder, which is removed when the program ends.

    Raises InspectorError for anything unsafe or unreadable; nothing is left behind then.
    """
    target = Path(tempfile.mkdtemp(prefix="inspector-"))
    _unpacked.append(target)
    budget = _Budget(archive)
    try:
        if archive.name.lower().endswith(".zip"):
            _unpack_zip(archive, target, budget)
        else:
            _unpack_tar(archive, target, budget)
    except (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError) as error:
        shutil.rmtree(target, ignore_errors=True)
        raise InspectorError(
            f"{archive}: not a readable archive ({_first_line(error)}); copy it again, or unpack it by hand"
        ) from error
    except (InspectorError, RuntimeError, NotImplementedError) as error:
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, InspectorError):
            raise
        raise InspectorError(f"{archive}: cannot be unpacked ({error}); unpack it by hand") from error
    return target


def remove_unpacked() -> None:
    """Remove every folder that `unpack` made; runs by itself when the interpreter ends in the usual way."""
    while _unpacked:
        shutil.rmtree(_unpacked.pop(), ignore_errors=True)


atexit.register(remove_unpacked)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(": ")


class _Budget:
    """Counts members and bytes really written, and refuses what no run would need."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive
        self.packed = max(archive.stat().st_size, 1)
        self.bytes = 0
        self.members = 0

    def member(self) -> None:
        self.members += 1
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


def _unpack_tar(archive: Path, target: Path, budget: _Budget) -> None:
    with tarfile.open(archive) as tar:
        for member in tar:
            budget.member()
            if member.isdir():
                _destination(archive, target, member.name).mkdir(parents=True, exist_ok=True)
                continue
            if not member.isreg():
                what = "a link" if member.issym() or member.islnk() else "a special file"
                raise InspectorError(f"{archive}: refused: member {member.name!r} is {what}")
            source = tar.extractfile(member)
            if source is not None:
                with source:
                    _copy(source, _destination(archive, target, member.name), budget)


def _unpack_zip(archive: Path, target: Path, budget: _Budget) -> None:
    with zipfile.ZipFile(archive) as bundle:
        for info in bundle.infolist():
            budget.member()
            destination = _destination(archive, target, info.filename)
            if info.is_dir():
                destination.mkdir(parents=True, exist_ok=True)
                continue
            # The upper half of external_attr holds the Unix mode; 0o12 is a symbolic link.
            if (info.external_attr >> 28) == 0o12:
                raise InspectorError(f"{archive}: refused: member {info.filename!r} is a link")
            with bundle.open(info) as source:
                _copy(source, destination, budget)


def _destination(archive: Path, target: Path, name: str) -> Path:
    """Where a member goes; refuses absolute names, drive letters and any way upwards."""
    posix = PurePosixPath(name.replace("\\", "/"))
    if posix.is_absolute() or ".." in posix.parts or ":" in (posix.parts[0] if posix.parts else ""):
        raise InspectorError(f"{archive}: refused: member {name!r} would land outside the folder")
    return target.joinpath(*posix.parts)


def _copy(source: IO[bytes], destination: Path, budget: _Budget) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    with destination.open("wb") as sink:
        while chunk := source.read(_CHUNK):
            budget.spend(len(chunk))
            sink.write(chunk)
