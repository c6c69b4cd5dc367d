"""What a path is: a capture, torch_compile_debug, one graph, a trace, a cache, an archive, or nothing.

Only names and the first bytes of candidate files are looked at; no artifact is read.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from inspector.files import open_plain
from inspector.frozen import dataclass
from inspector.model.problem import InspectorError
from inspector.model.run import GRAPH_FILES, MANIFEST_NAME, GraphName

Kind = Literal[
    "capture", "debug folder", "process folder", "graph folder", "trace",
    "Inductor cache", "package", "vLLM cache", "mega-cache",
]  # fmt: skip

KIND_TEXT: dict[Kind, str] = {
    "capture": "a captured run",
    "debug folder": "a torch_compile_debug folder",
    "process folder": "one process of a torch_compile_debug folder",
    "graph folder": "one compiled graph",
    "trace": "a TORCH_TRACE log",
    "Inductor cache": "an Inductor cache",
    "package": "an AOTInductor package",
    "vLLM cache": "a vLLM compile cache",
    "mega-cache": "a mega-cache",
}

NOT_IN: dict[Kind, str] = {
    "Inductor cache": "it holds generated code of any number of programs: which of them, in which order, the "
    "graphs before and after fusion, breaks, recompiles and times cannot be known from it",
    "package": "it holds generated code and weights: the graphs before and after fusion, the lines of the "
    "model that they came from, and times cannot be known from it",
    "vLLM cache": "only the traced graph and generated code are read, where they lie there as text, pickles "
    "are not loaded: what became of each piece, breaks, recompiles and times cannot be known from it",
    "mega-cache": "its entries are pickles, which are not loaded: only kinds and sizes can be known; where "
    "torch loads them (torch.compiler.load_cache_artifacts), it writes generated code into its cache folder",
}
"""What one would look for in vain, and why."""

LOOKS = (
    "a capture's folder, torch_compile_debug, run_*, model__*, a TORCH_TRACE log, an Inductor cache, a .pt2 "
    "package of AOTInductor, vLLM's torch_compile_cache, a mega-cache or an archive of these"
)

# V1121 05:02:31.274000 12661 torch/_dynamo/utils.py:2009] {"artifact": ...
TRACE_LINE = re.compile(rb"^(?:\[rank\d+\]:)?[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ \S+:\d+\] \{")

ARCHIVE_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".zip", ".pt2")

VLLM_INDEX = "vllm_compile_cache.py"
VLLM_GRAPH = "computation_graph.py"
"""The traced graph, cut into pieces."""
_VLLM_KEY = "cache_key_factors.json"
VLLM_AHEAD = "model"
"""In torch_aot_compile/HASH/rank_R_D: a function compiled ahead of time (vllm/compilation/caching.py)."""

# A checksum (not before 2.8), the version, and the length of the first kind's name, which is base64.
MEGA_CACHE = re.compile(rb"(?s)(?:.{4})?(?=\0{7}\x01\0{7}[\x04-\x40][A-Za-z0-9+/]{4})")

# ``cv/ccvgd...q.py``: the second and third character of a file's hash name its folder (torch/_inductor/
# codecache.py: get_path).
CACHED_NAME = re.compile(r"[a-z]([a-z2-7]{2})[a-z2-7]{46,60}(?:\.\w+)+")

_MARKS = (
    MANIFEST_NAME,
    "torch_compile_debug",
    "torchinductor",
    "model__",
    "dedicated_log_torch_trace",
    "bootstrap.log",
    "data/aotinductor",
    VLLM_INDEX,
    VLLM_GRAPH,
)
"""In names of a run's files: what an archive with one of these among its first members holds."""
_MOST_RANKS = 8
_MOST_ARCHIVES = 100
_SEARCH_DEPTH = 4
_SEARCH_LIMIT = 20_000
_SKIPPED = {"cache", "node_modules", "site-packages", "__pycache__", "proc", "sys"}


@dataclass(frozen=True, slots=True)
class Located:
    """A path that can be opened. `path` is where the files are (a temporary folder for an archive, then
    `unpacked`), `shown` is what the user named. One that was `listed` is an archive that lies in a folder,
    of which nothing more is known."""

    kind: Kind
    path: Path
    shown: str
    unpacked: bool = False
    listed: bool = False

    def opened(self) -> Located:
        """The run in an archive that was only listed, unpacked; itself where there is nothing to unpack.
        Raises InspectorError where it cannot be, or holds several runs."""
        return locate(self.path) if self.listed else self


def locate(path: str | os.PathLike[str]) -> Located:
    """What `path` is. An archive may be followed by a path inside it (``runs.tar.xz/softmax``).

    Raises InspectorError, with what to do, for everything that is not exactly one run.
    """
    path = Path(os.path.expanduser(path))
    runs = runs_at(path)
    if len(runs) == 1:
        return runs[0].opened()
    if runs:
        names = ", ".join(run.shown for run in runs[:6]) + (", ..." if len(runs) > 6 else "")
        raise InspectorError(f"{path}: holds {len(runs)} runs; name one of them: {names}")
    raise InspectorError(_nothing(path))


def runs_at(path: Path) -> list[Located]:
    """The run at `path`, or the runs below it (a few levels deep), archives among them, sorted by name; empty
    if none."""
    if path.is_dir():
        return _runs_in(path, str(path), archives=_MOST_ARCHIVES)
    if path.is_file():
        if is_archive(path):
            return _from_archive(_runs_in(_unpack(path), str(path)))
        kind: Kind | None = "trace" if is_trace_file(path) else "mega-cache" if is_mega_cache(path) else None
        return [Located(kind, path, str(path))] if kind is not None else []
    for parent in path.parents:
        if parent.is_file() and is_archive(parent):
            inside = _unpack(parent) / path.relative_to(parent)
            return _from_archive(_runs_in(inside, str(path)) if inside.is_dir() else runs_at(inside))
    return []


def _from_archive(runs: list[Located]) -> list[Located]:
    return [replace(run, unpacked=True) for run in runs]


def find_runs(path: str | None) -> list[Located]:
    """The runs at or below `path`, None for the current folder, the only one that may hold none.

    Raises InspectorError where `path` cannot be opened.
    """
    if path is None:
        return runs_at(Path("."))
    return runs_at(Path(os.path.expanduser(path))) or [locate(path)]


def is_archive(path: Path) -> bool:
    """By name: the kinds that `archive.unpack` reads."""
    return path.name.lower().endswith(ARCHIVE_SUFFIXES)


def _unpack(path: Path) -> Path:
    # tarfile, zipfile and their codecs cost more to import than all else that opening a folder needs.
    from .archive import unpack

    return unpack(path)


def _runs_in(folder: Path, shown: str, archives: int = 0) -> list[Located]:
    """Looks into at most so many `archives`: into none of what came out of one."""
    kind = kind_of(folder)
    if kind is not None:
        return [Located(kind, folder, shown)]
    runs: list[Located] = []
    seen = 0
    level = [folder]
    for _ in range(_SEARCH_DEPTH):
        deeper: list[Path] = []
        for parent in level:
            for child in _archives(parent)[:archives]:
                archives -= 1
                if _holds_run(child):
                    label = os.path.join(shown, child.relative_to(folder))
                    runs.append(Located("capture", child, label, listed=True))
            for child in _subfolders(parent):
                seen += 1
                if seen > _SEARCH_LIMIT:
                    return sorted(runs, key=lambda run: run.shown)
                kind = kind_of(child)
                if kind is None:
                    deeper.append(child)
                else:
                    label = os.path.join(shown, child.relative_to(folder))
                    runs.append(Located(kind, child, label))
        level = deeper
    return sorted(runs, key=lambda run: run.shown)


def _subfolders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [
                Path(entry.path)
                for entry in entries
                if entry.is_dir(follow_symlinks=False)
                and entry.name not in _SKIPPED
                and not entry.name.startswith(".")
            ]
    except OSError:
        return []


def _archives(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if is_archive(path) and path.is_file())
    except OSError:
        return []


def _holds_run(path: Path) -> bool:
    from .archive import first_names

    return any(mark in name for name in first_names(path) for mark in _MARKS)


def kind_of(folder: Path) -> Kind | None:
    """What a folder is, by the names in it; None where it is no run."""
    names = _names(folder)
    if names is None:
        return None
    if MANIFEST_NAME in names or "torch_compile_debug" in names:
        return "capture"
    if names & {*GRAPH_FILES} or (not names and GraphName.parse(folder.name)):
        return "graph folder"
    if "torchinductor" in names or (folder.name.startswith("run_") and "torchdynamo" in names):
        return "process folder"
    if folder.name == "torch_compile_debug" or any(_is_process_folder(folder / name) for name in names):
        return "debug folder"
    if any(name.endswith(".log") and is_trace_file(folder / name) for name in sorted(names)):
        return "trace"
    if "data" in names and (folder / "data" / "aotinductor").is_dir():
        return "package"
    if _is_vllm(folder, names):
        return "vLLM cache"
    return "Inductor cache" if _is_cache(folder, names) else None


def _is_vllm(folder: Path, names: set[str]) -> bool:
    """Whether a folder is one of a part of a model, of a rank with such parts, or of a model with ranks."""
    ranks = sorted(name for name in names if name.startswith("rank_"))[:_MOST_RANKS]
    return (
        _is_vllm_part(names)
        or _is_vllm_rank(folder, names)
        or any(_is_vllm_rank(folder / name, _names(folder / name) or set()) for name in ranks)
    )


def _is_vllm_rank(folder: Path, names: set[str]) -> bool:
    if not folder.name.startswith("rank_"):
        return False
    ahead = VLLM_AHEAD in names and folder.parent.parent.name == "torch_aot_compile"
    return ahead or any(_is_vllm_part(_names(folder / name) or set()) for name in names)


def _is_vllm_part(names: set[str]) -> bool:
    return VLLM_INDEX in names or {VLLM_GRAPH, _VLLM_KEY} <= names


def _names(folder: Path) -> set[str] | None:
    """Of what is in a folder; None where that cannot be listed."""
    try:
        return {entry.name for entry in os.scandir(folder)}
    except OSError:
        return None


def _is_cache(folder: Path, names: set[str]) -> bool:
    """Whether a folder of two letters holds a file whose hash begins so."""
    for name in sorted(names):
        if len(name) == 2:
            with suppress(OSError):
                if any(
                    (m := CACHED_NAME.fullmatch(file)) and m[1] == name for file in os.listdir(folder / name)
                ):
                    return True
    return False


def _is_process_folder(path: Path) -> bool:
    return path.name.startswith("run_") and (
        (path / "torchinductor").is_dir() or (path / "torchdynamo").is_dir()
    )


def is_trace_file(path: Path) -> bool:
    """True where the file's first line is an envelope of TORCH_TRACE."""
    try:
        with open_plain(path) as file:
            return TRACE_LINE.match(file.readline(4096)) is not None
    except (OSError, ValueError):
        return False


def is_mega_cache(path: Path) -> bool:
    """True for what ``torch.compiler.save_cache_artifacts`` makes, by its first bytes."""
    try:
        with open_plain(path) as file:
            return MEGA_CACHE.match(file.read(64)) is not None
    except (OSError, ValueError):
        return False


def _nothing(path: Path) -> str:
    if not path.exists():
        return f"{path}: no such file or folder"
    if path.is_dir():
        try:
            empty = not any(path.iterdir())
        except OSError as error:
            return f"{path}: cannot be read: {error.strerror}"
        if empty:
            return f"{path}: an empty folder; capture something: inspector capture -o RUN -- python train.py"
        return f"{path}: no run here or below; what can be opened is {LOOKS}"
    if not os.access(path, os.R_OK):
        return f"{path}: cannot be read: permission denied"
    if path.suffix == ".pt2":
        return f"{path}: no code of AOTInductor in it: an exported program is not compiled yet"
    if path.name in (*GRAPH_FILES,):
        return f"{path}: one file of a compiled graph; open the folder it lies in: {path.parent}"
    return f"{path}: not a run; what can be opened is {LOOKS}"
