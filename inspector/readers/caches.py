"""What torch keeps outside a debug folder: Inductor's cache, AOTInductor packages, vLLM's cache, mega-caches.

Generated code is text and is read like any output_code.py. What is pickled is counted and weighed, never
loaded: to unpickle is to run what its author wanted.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from inspector.frozen import dataclass
from inspector.model.problem import Problem, Read
from inspector.model.run import Content

from .locate import CACHED_NAME, MEGA_CACHE, VLLM_AHEAD, VLLM_GRAPH, Kind
from .text import from_json, read_bytes, read_text
from .vllm import index, pieces

_MOST_FILES = 20_000
_HEAD = 4096

# ``# AOT ID: ['0_inference']`` in the first lines of a wrapper; a C++ one imports what compiles it, and one
# without an id (standalone_compile) has an assertion for its inputs. A kernel's own file has none of them.
_AOT_ID = re.compile(rb"^# AOT ID: \['?(\w*)", re.MULTILINE)
_WRAPPER = re.compile(
    rb"CppWrapperCodeCache|^assert_size_stride = |^async_compile = AsyncCompile", re.MULTILINE
)

_BY_FOLDER = {
    "fxgraph": "entries of the FX graph cache, pickled",
    "aotautograd": "entries of AOT autograd's cache, pickled",
}
_BY_SUFFIX = {
    ".so": "compiled libraries",
    ".pyd": "compiled libraries",
    ".o": "compiled libraries",
    ".cpp": "C++ sources",
    ".h": "C++ sources",
    ".gch": "precompiled headers",
    ".py": "Python sources",
    ".json": "metadata",
    ".best_config": "results of autotuning",
    ".ttir": "Triton stages",
    ".ttgir": "Triton stages",
    ".source": "Triton stages",
    ".llir": "Triton stages",
    ".ptx": "Triton stages",
    ".amdgcn": "Triton stages",
    ".cubin": "GPU binaries",
    ".hsaco": "GPU binaries",
}


@dataclass(frozen=True, slots=True)
class Wrapper:
    """Generated code of one graph: `files` are joined in this order; `phase` as the AOT id has it."""

    name: str
    phase: str
    files: tuple[Path, ...]

    def read(self, label: Callable[[Path], str]) -> Read[str]:
        texts, problems = zip(*(read_text(path, label(path)) for path in self.files), strict=True)
        return "\n".join(texts), tuple(problem for more in problems for problem in more)


def wrappers(root: Path, kind: Kind) -> tuple[Wrapper, ...]:
    """The graphs whose code lies below `root`; of a cache in the order of their names, as nothing tells that
    of compilation."""
    if kind == "package":
        return tuple(_packaged(root))
    if kind in ("Inductor cache", "vLLM cache"):
        seen: dict[str, Wrapper] = {}
        for path in _files(root):
            if (
                path.suffix == ".py"
                and CACHED_NAME.fullmatch(path.name)
                and (wrapper := _cached(path)) is not None
            ):
                seen.setdefault(wrapper.name, wrapper)
        return tuple(sorted(seen.values(), key=lambda wrapper: wrapper.name))
    return ()


def _packaged(root: Path) -> Iterator[Wrapper]:
    """One for each model of the package: the wrapper, then the kernels where they have a file."""
    for folder in sorted((root / "data" / "aotinductor").iterdir()):
        names = sorted(path for path in folder.iterdir() if path.suffix == ".cpp") if folder.is_dir() else []
        first = [path for path in names if ".kernel." not in path.name]
        if first:
            yield Wrapper(folder.name, "inference", (*first, *(path for path in names if path not in first)))


def _cached(path: Path) -> Wrapper | None:
    """``c<hash>.py`` of one graph; None for a kernel's own file, and what is no wrapper."""
    head, _ = read_bytes(path, "", _HEAD)
    match = _AOT_ID.search(head)
    if match is None and _WRAPPER.search(head) is None:
        return None
    aot = match[1].decode() if match is not None else "graph"
    phase = aot.partition("_")[2]
    known = phase if phase in ("inference", "forward", "backward") else "unknown"
    return Wrapper(f"{aot}.{path.stem[:12]}", known, (path,))


def contents(root: Path, kind: Kind) -> Read[tuple[Content, ...]]:
    """What lies there, by kind, and what is wrong with it; empty for what has graph folders."""
    if kind == "mega-cache":
        return _mega_cache(root)
    if kind not in ("Inductor cache", "vLLM cache", "package"):
        return (), ()
    totals: dict[str, tuple[int, int]] = {}
    for path in _files(root):
        what = _what(path, root)
        number, size = totals.get(what, (0, 0))
        totals[what] = (number + 1, size + _size(path))
    listed = tuple(Content(what, *total) for what, total in sorted(totals.items()))
    if kind == "vLLM cache":
        known, problems = index(root)
        return (*known, *listed), (*problems, *pieces(root)[1])
    return listed, ()


def package_devices(root: Path) -> tuple[str, ...]:
    """``cpu`` or ``cuda``, as each model's metadata has it."""
    devices: dict[str, None] = {}
    for path in sorted(root.glob("data/aotinductor/*/*_metadata.json"))[:100]:
        try:
            device = from_json(read_text(path)[0]).get("AOTI_DEVICE_KEY")
        except (ValueError, AttributeError):
            continue
        if isinstance(device, str):
            devices[device] = None
    return tuple(devices)


def _files(root: Path) -> Iterator[Path]:
    left = _MOST_FILES
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            if name.endswith(".lock") or path.is_symlink():
                continue
            left -= 1
            if left < 0:
                return
            yield path


def _what(path: Path, root: Path) -> str:
    parts = path.relative_to(root).parts
    of_folder = next((_BY_FOLDER[part] for part in parts[:-1] if part in _BY_FOLDER), None)
    if path.name == VLLM_GRAPH:
        return "graphs that vLLM cut into pieces"
    if of_folder is None and path.name.startswith("artifact_"):
        return "artifacts of vLLM in one file each, pickled"
    if path.name == VLLM_AHEAD and path.parent.parent.parent.name == "torch_aot_compile":
        return "functions of vLLM compiled ahead of time, pickled"
    return of_folder or _BY_SUFFIX.get(path.suffix, "other files")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


# -- mega-caches


def _mega_cache(path: Path) -> Read[tuple[Content, ...]]:
    """Kinds and sizes of what ``torch.compiler.save_cache_artifacts`` writes: a checksum, a version, then for
    each kind its name, a number, and that many keys with bytes (torch/utils/_appending_byte_serializer.py,
    torch/compiler/_cache.py). The bytes are pickles, which nothing reads."""
    label = path.name
    data, problems = read_bytes(path, label)
    start = MEGA_CACHE.match(data)
    checksum = start.end() if start is not None else 0
    reader = _Bytes(data, checksum + 8)
    listed: list[Content] = []
    try:
        while not reader.ended:
            kind, number = reader.text(), reader.number()
            if not kind or number > len(data):
                raise ValueError
            total = 0
            for _ in range(number):
                reader.text()
                total += reader.skip()
            listed.append(Content(f"{kind} entries, pickled", number, total))
    except ValueError:
        problems += (Problem(label, None, "cut short or damaged: what is listed is what came before"),)
    else:
        if checksum and zlib.crc32(data[checksum:]).to_bytes(4, "big") != data[:checksum]:
            problems += (Problem(label, None, "its checksum does not fit: torch will not load it"),)
    return tuple(listed), problems


class _Bytes:
    """Reads numbers of eight bytes and byte strings with their length before them; ValueError at the end."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data, self._position = data, position

    @property
    def ended(self) -> bool:
        return self._position >= len(self._data)

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._position:
            raise ValueError
        self._position += size
        return self._data[self._position - size : self._position]

    def number(self) -> int:
        return int.from_bytes(self._take(8), "big")

    def skip(self) -> int:
        size = self.number()
        if size > len(self._data) - self._position:
            raise ValueError
        self._position += size
        return size

    def text(self) -> str:
        try:
            return base64.b64decode(self._take(self.number()), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise ValueError from None
