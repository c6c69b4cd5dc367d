"""Writes a run as an archive in which nothing is named that says who made it, and where.

Every text of the run is read twice: first for the names in it, then to be written with neutral ones. What is
no text is a binary (libraries, pickles, what a compiler left) and stays behind. MD5s in a structured trace
are those of the new payloads, so that readers see which events are whole; what was broken stays so.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import field
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

from inspector.files import open_plain, read_plain, unused
from inspector.frozen import dataclass
from inspector.model.problem import InspectorError
from inspector.model.run import GRAPH_FILES, MANIFEST_NAME
from inspector.readers.locate import TRACE_LINE
from inspector.readers.programs import program_sources
from inspector.readers.run import Run
from inspector.readers.stages.files import STAGE_FILES
from inspector.readers.trace import is_whole, raw_payload, read_trace
from inspector.seal import NAME as SEAL

from .private import Kind, Private
from .source import Source

_MOST_BYTES = 512 << 20
_STAGES = tuple(f".{name}" for name in (*STAGE_FILES, "best_config") if name != "cubin")
"""Of a cache: what a kernel was lowered to, as text."""
_SETTINGS = re.compile(r"(?:TORCH|TRITON|CUDA_|INSPECTOR_|PYTHON|OMP_|MKL_|KMP_|NCCL_|AOT_)")
"""Variables whose values say how the program was compiled and run."""
_PLAIN_VALUE = re.compile(r"[\d.,:-]*|[Tt]rue|[Ff]alse|on|off|yes|no")


@dataclass(frozen=True, slots=True)
class Packed:
    """What was written: `files` and their bytes before packing, `replaced` names by kind, `lines` of the
    program that were left out (None: they stay), saved inputs that went along, `left_out` files by reason."""

    target: Path
    files: int
    bytes: int
    replaced: Counter[Kind]
    in_code: tuple[str, ...]
    lines: int | None
    programs: int
    inputs: int
    left_out: Counter[str] = field(default_factory=Counter)


class Packer:
    """One run on its way into an archive; `private` is what its texts gave away."""

    def __init__(self, run: Run, *, inputs: bool = False, source: bool = True, own: bool = False) -> None:
        """`own`: the run is known to be this user's capture, so that the program's files may be read where
        they lie. Raises InspectorError where there is nothing to pack."""
        self.run = run
        self.private = Private()
        self.source = None if source else Source()
        self.left_out: Counter[str] = Counter()
        self._inputs: dict[str, Path] = {}
        self._texts: dict[str, Path] = {}
        self._programs: dict[str, str] = {}
        self._own = own
        for name, path in self._walk():
            self._sort(name, path, inputs)
        if not self._texts:
            raise InspectorError(f"{run.shown}: holds binaries alone, which are not packed")
        self._learn(source)

    def _walk(self) -> Iterator[tuple[str, Path]]:
        root = self.run.root
        if root.is_file():
            yield root.name, root
            return
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                path = Path(folder, name)
                if path.is_symlink():
                    self.left_out["links"] += 1
                elif path.is_file():
                    yield path.relative_to(root).as_posix(), path

    def _sort(self, name: str, path: Path, inputs: bool) -> None:
        parts = name.split("/")
        if name.endswith(SEAL):
            return
        if "cache" in parts[:-1] and not name.endswith(_STAGES):
            self.left_out["files of caches"] += 1
        elif "inputs" in parts[:-1] and name.endswith(".pt"):
            if inputs:
                self._inputs[name] = path
            else:
                self.left_out["saved inputs"] += 1
        elif self._text(path) is None:
            self.left_out["binaries"] += 1
        elif self.source is not None and _is_program(parts):
            self.left_out["files of the program"] += 1
            self.source.learn_program(self._text(path) or "")
        else:
            self._texts[name] = path

    def _text(self, path: Path) -> str | None:
        """A file's text, unpacked where it is packed alone; None for a binary and what cannot be read."""
        try:
            data = read_plain(path, min(_MOST_BYTES, path.stat().st_size))
            if data[:2] == b"\x1f\x8b":
                with gzip.open(io.BytesIO(data)) as unpacked:
                    data = bytes(unpacked.read(_MOST_BYTES))
            text = data.decode("utf-8")
        except (OSError, EOFError, zlib.error, UnicodeDecodeError):
            return None
        return None if "\0" in text else text

    def _learn(self, source: bool) -> None:
        if source and self._own:
            for shown, text in program_sources(self.run):
                name = os.path.basename(shown)
                if name not in self._texts and name not in self._programs:
                    self._programs[name] = text
        for text in chain(filter(None, map(self._text, self._texts.values())), self._programs.values()):
            self.private.learn(text)
            if self.source is not None:
                self.source.learn(text)
        for name, path in self._texts.items():
            if name.endswith(MANIFEST_NAME):
                self._learn_manifest(self._text(path) or "")
        for name, path in self._texts.items():
            if name.endswith(GRAPH_FILES):
                self.private.learn_code(self._text(path) or "")

    def _learn_manifest(self, text: str) -> None:
        data = _object(text)
        if isinstance(host := data.get("host"), str):
            self.private.learn_host(host)
        for name, value in _environment(data).items():
            if not _SETTINGS.match(name) and "/" not in value:
                self.private.learn_secret(value)

    # -- writing

    def rewritten(self, name: str, text: str) -> str:
        """A file's text as it is packed."""
        if self.source is not None:
            text = self.source.clean(text)
        clean = self.private.clean(text)
        if name.endswith(MANIFEST_NAME):
            clean = self._manifest(clean)
        elif TRACE_LINE.match(text[:4096].encode()):
            clean = _with_digests(text, clean)
        return clean

    def _manifest(self, text: str) -> str:
        data = _object(text)
        if not data:
            return text
        if isinstance(data.get("host"), str):
            data["host"] = "host"
        if values := _environment(data):
            data["environment"] = {
                name: value
                if _SETTINGS.match(name) or _PLAIN_VALUE.fullmatch(value)
                else self.private.value(value)
                for name, value in values.items()
            }
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"

    def write(
        self, target: Path, top: str = "run", tell: Callable[[str], None] = lambda _text: None
    ) -> Packed:
        """The archive, packed as its name's ending says, below one folder `top`; beside first, then renamed.

        Raises InspectorError for a name that ends otherwise, and OSError.
        """
        if not target.name.lower().endswith((".tar.gz", ".tgz", ".tar.xz", ".tar")):
            raise InspectorError(
                f"{target}: its name has to say how it is packed: run.tar.gz, .tar.xz or .tar"
            )
        if self.run.kind in ("graph folder", "process folder"):
            # What it is called says which one it is.
            top = self.run.root.name
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        names: set[str] = set()
        count = size = inputs = 0
        try:
            with open(beside, "xb") as file, _tar(file, target.suffix.lower()) as tar:
                for name, path in self._texts.items():
                    tell(f"packing {name}")
                    data = self._bytes(name, path)
                    names.add(member := unused(self.private.clean(name), names.__contains__))
                    _add(tar, f"{top}/{member}", data)
                    count, size = count + 1, size + len(data)
                for name, text in self._programs.items():
                    data = _encoded(self.rewritten(name, text))
                    _add(tar, f"{top}/{self.private.clean(name)}", data)
                    count, size = count + 1, size + len(data)
                for name, path in self._inputs.items():
                    if (saved := self._harmless(path)) is None:
                        self.left_out["saved inputs that hold private names"] += 1
                        continue
                    _add(tar, f"{top}/{self.private.clean(name)}", saved)
                    count, size, inputs = count + 1, size + len(saved), inputs + 1
            os.replace(beside, target)
        finally:
            beside.unlink(missing_ok=True)
        return Packed(
            target, count, size, self.private.replaced, tuple(sorted(self.private.in_code)),
            None if self.source is None else self.source.left_out, len(self._programs), inputs, self.left_out,
        )  # fmt: skip

    def _bytes(self, name: str, path: Path) -> bytes:
        data = _encoded(self.rewritten(name, self._text(path) or ""))
        with open_plain(path) as file:
            packed = file.read(2) == b"\x1f\x8b"
        return gzip.compress(data, mtime=0) if packed else data

    def _harmless(self, path: Path) -> bytes | None:
        """A file of saved tensors; None where it names what was replaced. Tensors are bytes, and stay."""
        data = read_plain(path, path.stat().st_size)
        return None if any(name.encode() in data for name in self.private.names()) else data


def _is_program(parts: list[str]) -> bool:
    """Whether a file of a run is one of the program that was run: torch's own lie in folders of torch's."""
    return (
        parts[-1].endswith((".py", ".ipynb"))
        and not {"torch_compile_debug", "cache"} & set(parts[:-1])
        and (parts[-1] not in GRAPH_FILES)
    )


def _object(text: str) -> dict[str, object]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _environment(data: dict[str, object]) -> dict[str, str]:
    values = data.get("environment")
    return (
        {str(name): value for name, value in values.items() if isinstance(value, str)}
        if isinstance(values, dict)
        else {}
    )


def _encoded(text: str) -> bytes:
    """Half a pair of surrogates, which JSON may have named, is written as JSON and Python name it."""
    return text.encode("utf-8", "backslashreplace")


def _with_digests(text: str, clean: str) -> str:
    """A trace after cleaning, with the MD5 of each payload that was whole before."""
    before, after = text.encode(), clean.encode()
    old, new = read_trace(before, ""), read_trace(after, "")
    lines = clean.split("\n")
    for was, event in zip(old.events, new.events, strict=False):
        if was.digest and was.line == event.line and was.digest == event.digest and is_whole(before, was):
            digest = hashlib.md5(raw_payload(after, event), usedforsecurity=False).hexdigest()
            lines[event.line - 1] = lines[event.line - 1].replace(was.digest, digest)
    return "\n".join(lines)


@contextmanager
def _tar(file: BinaryIO, suffix: str) -> Iterator[tarfile.TarFile]:
    """An archive that says neither when it was made nor what it was called."""
    with ExitStack() as stack:
        if suffix in (".gz", ".tgz"):
            file = cast(BinaryIO, stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0)))
        elif suffix == ".xz":
            file = cast(BinaryIO, stack.enter_context(lzma.open(file, "wb", preset=9)))
        yield stack.enter_context(tarfile.open(fileobj=file, mode="w"))


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.mode = 0o644
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))
