"""The seal of a run: what shows that its code is what this user's own capture left there.

A capture ends by writing RUN/inspector.seal: the SHA-256 of everything in the run that Inspector may be asked
to execute, and an HMAC over these with a key that never leaves the user's state folder. So a run that was
written elsewhere has no seal, whatever it says of itself; one that is copied to somebody else tells them
nothing of the key; a folder may be moved and renamed; and what went out and came back counts as the user's
own only where nothing that runs was changed. The command is sealed with the folder that it ran in: its words
name files there, and in a run that was moved or copied they would be others; and with the recorder's files,
from which variables of its environment are taken. Logs, results and the user's edits of kernels are not
sealed: none of them is executed but an edit, which the user has just saved or names.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from inspector.files import open_plain, state_folder, write_whole
from inspector.model.run import GRAPH_FILES, MANIFEST_NAME, Manifest

NAME = "inspector.seal"
SCHEMA = "inspector.seal/1"
_MOST_BYTES = 64 << 20
"""Of a seal or a manifest: far more than a run of 100,000 graphs needs."""
_MOST_CODE = 512 << 20
"""Of one file of a graph; a larger one counts as changed, and is not read to its end."""
_REPEATED = ("command", "environment", "options")
"""Fields of the manifest that say what is run when a command is repeated."""
_KEY_BYTES = 64
_CHUNK = 1 << 20


def seal(run: Path) -> None:
    """Write RUN/inspector.seal for what lies there now. Raises OSError, or ValueError for a bad manifest."""
    manifest = json.loads(_read(run / MANIFEST_NAME))
    command, environment, options = (manifest.get(name) for name in _REPEATED)
    folder = (options or {}).get("cwd") or "."
    files = {name: digest for name, digest in (*_files(run), *_records(run)) if digest}
    sealed = {
        "schema": SCHEMA,
        "files": files,
        "repeats": _digest_of(command, environment, options),
        "cwd": os.path.realpath(run / folder),
    }
    text = json.dumps({**sealed, "hmac": _hmac(_kept_key(), sealed)}, indent=1)
    write_whole(run / NAME, text + "\n")


def why_broken(
    root: Path,
    folders: Iterable[Path],
    texts: Mapping[Path, str],
    manifest: Manifest | None,
    repeats: bool = False,
) -> str | None:
    """Why the graphs in `folders`, all below `root`, are not known to be what a capture of this user's left
    there, as half a sentence; None where they are.

    `texts` are files of theirs as they were read and would be run: these are what is compared, so that nobody
    can change a file between this and its use. `manifest` is that of `root`, as it was read. `repeats`: its
    command is to be run, too. `root` may be a part of a sealed run.
    """
    real = Path(os.path.realpath(root))
    run = next((folder for folder in (real, *real.parents[:4]) if os.path.lexists(folder / NAME)), None)
    if run is None:
        return "no seal of your own captures is on it"
    try:
        data = json.loads(_read(run / NAME))
        files = dict(data["files"])
        sealed = {"schema": SCHEMA, "files": files, "repeats": str(data["repeats"]), "cwd": str(data["cwd"])}
        if not hmac.compare_digest(_hmac(_key(), sealed), str(data["hmac"])):
            return "its seal is not one of yours on this machine"
        for name, digest in (*_files(run), *(_records(run) if repeats else ())):
            if not digest or files.get(name) != digest:
                return f"{name} was {'changed' if name in files else 'added'} since its capture"
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return "its seal cannot be checked"
    if manifest is not None or repeats:
        if manifest is None or real != run:
            return f"its {MANIFEST_NAME} is not the one that was sealed"
        if sealed["repeats"] != _digest_of(manifest.command, manifest.environment, manifest.options):
            return f"{MANIFEST_NAME} was changed since its capture"
        if repeats and sealed["cwd"] != os.path.realpath(run / str(manifest.options.get("cwd") or ".")):
            return f"its command ran in {sealed['cwd']}, and the run was moved or copied since"
    known = {os.path.dirname(name) for name in files}
    for folder in folders:
        name = os.path.relpath(real / folder.relative_to(root), run)
        # A folder that holds nothing that runs is left by a compilation that died.
        if name not in known and any(os.path.lexists(folder / file) for file in GRAPH_FILES):
            return f"{name} is none of the graphs that its capture left"
    for path, text in texts.items():
        name = os.path.relpath(real / os.path.relpath(path, root), run)
        if hashlib.sha256(text.encode()).hexdigest() != files.get(name):
            return f"{name} as it was read is not what its capture left"
    return None


def _files(run: Path) -> Iterator[tuple[str, str]]:
    """(path relative to the run, SHA-256) of all files of graphs; no digest of what cannot be read."""
    for process in _folders(run / "torch_compile_debug"):
        for graph in _folders(process / "torchinductor"):
            for name in GRAPH_FILES:
                if os.path.lexists(path := graph / name):
                    yield str(path.relative_to(run)), _digest(path)


def _records(run: Path) -> Iterator[tuple[str, str]]:
    """The same of what the recorder wrote: variables that the command is repeated with are from there."""
    for path in sorted((run / "record").glob("*.jsonl")):
        yield str(path.relative_to(run)), _digest(path)


def _folders(parent: Path) -> list[Path]:
    with suppress(OSError), os.scandir(parent) as entries:
        return sorted(Path(entry.path) for entry in entries if os.path.isdir(entry))
    return []


def _digest(path: Path) -> str:
    """Of a file; empty for what is none, can't be read, or is larger than any code."""
    digest = hashlib.sha256()
    try:
        with open_plain(path) as file:
            if os.fstat(file.fileno()).st_size > _MOST_CODE:
                return ""
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError:
        return ""
    return digest.hexdigest()


def _digest_of(command: object, environment: object, options: object) -> str:
    """Of what the manifest says of the command."""
    fields = json.dumps([command or [], environment or {}, options or {}], sort_keys=True)
    return hashlib.sha256(fields.encode()).hexdigest()


def _read(path: Path) -> bytes:
    with open_plain(path) as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise OSError(f"{path.name} is too large")
    return data


def _hmac(key: bytes, sealed: object) -> str:
    return hmac.new(key, json.dumps(sealed, sort_keys=True).encode(), "sha256").hexdigest()


def _key() -> bytes:
    """The user's key. Raises OSError where there is none that nobody else can read or write."""
    path = state_folder() / "key"
    with open_plain(path) as file:
        facts, key = os.fstat(file.fileno()), file.read(_KEY_BYTES + 1)
    if stat.S_IMODE(facts.st_mode) & 0o077 or facts.st_uid != os.getuid() or len(key) != _KEY_BYTES:
        raise OSError(f"{path}: not a key of this user's alone")
    return key


def _kept_key() -> bytes:
    """The user's key, made where there is none. Raises OSError."""
    with suppress(OSError):
        return _key()
    path = state_folder() / "key"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # mkstemp makes files that only their owner can read.
    descriptor, name = tempfile.mkstemp(prefix="key-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_hex(_KEY_BYTES // 2).encode())
        try:
            # Of two captures that end at once, the first one's key stays.
            os.link(name, path)
        except OSError:
            with suppress(OSError):
                return _key()
            os.replace(name, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)
    return _key()
