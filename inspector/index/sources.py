"""What there is to read: runs' folders and archives below folders of this machine or of object storage."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from inspector.frozen import dataclass
from inspector.model.problem import InspectorError
from inspector.model.run import MANIFEST_NAME
from inspector.readers.locate import is_archive, kind_of
from inspector.temporary import temporary_folder

_URL = re.compile(r"[a-z][a-z0-9+.-]+://")
_SKIPPED = {"cache", "node_modules", "site-packages", "__pycache__"}
_CHANGING = ("", "logs", "record", "replay", "trace", "profile", "baseline")
"""Folders of a run in which files come and go; "" is the run's own."""


@dataclass(frozen=True, slots=True)
class Found:
    """A folder or an archive; `path` is absolute, or an address of object storage."""

    path: str
    stamp: str


def is_address(path: str) -> bool:
    """Whether fsspec has to read it (``s3://...``)."""
    return _URL.match(path) is not None


def sources_below(path: str) -> Iterator[Found]:
    """Runs and archives at or below `path`; inside of a run nothing is looked for.

    Raises InspectorError where it isn't there, or object storage cannot be read.
    """
    if is_address(path):
        yield from _stored_below(path)
        return
    top = Path(os.path.abspath(os.path.expanduser(path)))
    if top.is_file():
        yield Found(str(top), _stamp(top))
        return
    if not top.is_dir():
        raise InspectorError(f"{path}: not here; name a folder with runs in it, or an archive")
    for name, folders, files in os.walk(top):
        folder = Path(name)
        if kind_of(folder) is not None:
            folders.clear()
            yield Found(name, _stamp(folder))
            continue
        folders[:] = sorted(inner for inner in folders if inner not in _SKIPPED and inner[0] != ".")
        for file in sorted(files):
            if is_archive(folder / file):
                yield Found(str(folder / file), _stamp(folder / file))


def _stamp(path: Path) -> str:
    """Another one where a file was added, removed or written, as far as times and sizes tell."""
    digest = hashlib.sha256()
    for name in _CHANGING if path.is_dir() else ("",):
        try:
            entries = sorted(os.scandir(path / name), key=lambda entry: entry.name) if path.is_dir() else []
        except OSError:
            continue
        for entry in entries:
            known = entry.stat(follow_symlinks=False)
            digest.update(f"{entry.name}\0{known.st_size}\0{known.st_mtime_ns}\0".encode("utf-8", "replace"))
    if path.is_file():
        known = path.stat()
        digest.update(f"{known.st_size}\0{known.st_mtime_ns}".encode())
    return digest.hexdigest()[:32]


def _storage(path: str) -> tuple[Any, str]:
    """(file system, path in it)."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise InspectorError(f"{path}: needs fsspec: pip install 'inductor-inspector[storage]'") from None
    try:
        system, inside = url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise InspectorError(f"{path}: {str(error).splitlines()[0]}") from None
    return system, str(inside)


def _stored_below(path: str) -> Iterator[Found]:
    system, top = _storage(path)
    try:
        files = system.find(top, detail=True)
    except OSError as error:
        raise InspectorError(f"{path}: cannot be read: {error}") from None
    if not files:
        raise InspectorError(f"{path}: nothing is here")
    runs = {str(PurePosixPath(name).parent) for name in files if PurePosixPath(name).name == MANIFEST_NAME}
    stamps: dict[str, Any] = {}
    for name, info in sorted(files.items()):
        inside = next((str(parent) for parent in PurePosixPath(name).parents if str(parent) in runs), None)
        if inside is None and not is_archive(Path(name)):
            continue
        told = [
            name,
            *(str(info.get(key)) for key in ("size", "mtime", "created", "LastModified", "ETag", "etag")),
        ]
        stamps.setdefault(inside or name, hashlib.sha256()).update("\0".join(told).encode())
    for name, digest in stamps.items():
        yield Found(system.unstrip_protocol(name), digest.hexdigest()[:32])


@contextmanager
def local_copy(path: str) -> Iterator[Path]:
    """The source on this machine: itself, or what was fetched for as long as this lasts."""
    if not is_address(path):
        yield Path(path)
        return
    system, inside = _storage(path)
    with temporary_folder("inspector-fetched-") as folder:
        target = folder / PurePosixPath(inside).name
        system.get(inside, str(target), recursive=system.isdir(inside))
        yield target
