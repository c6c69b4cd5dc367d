"""Triton's cache folders of a run: what each holds, and which kernel it belongs to.

Triton writes ``NAME.ttir .ttgir .llir .ptx .cubin .json`` into ``triton/HASH/`` (triton/compiler/compiler.py:
compile; the name cut at 150 characters); Inductor keeps such folders for each device below its own cache.
A kernel's folders are known by the file that its locations name, which Inductor wrote for its source and
names in the comment above the kernel; which configuration was chosen, by Inductor's ``.best_config``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from inspector.model.code import Kernel
from inspector.model.lowering import STAGES, Frame, LoweredFolder, Stage, Target
from inspector.model.problem import Problem, Read
from inspector.readers.run_files import RunFiles
from inspector.readers.text import from_json, guarded, read_text

from .llvm import parse_llvm
from .mlir import parse_mlir
from .ptx import parse_ptx

_PATTERNS = ("cache/triton/*/*.json", "cache/inductor/triton/*/*/*.json", "triton/*/*.json")
_BEST = ("cache/inductor/*/*.best_config", "*/*.best_config")
_PARSERS = {"ttir": parse_mlir, "ttgir": parse_mlir, "llir": parse_llvm, "ptx": parse_ptx}
_FUNCTION = re.compile(r'^#loc = loc\("((?:[^"\\]|\\.)*)":(\d+):(\d+)\)$', re.M)
_HEAD = 4096


def lowered_folders(run: RunFiles) -> tuple[LoweredFolder, ...]:
    """Every folder of Triton's cache that the run holds, by name; reads their JSON and a few lines each."""
    folders: list[LoweredFolder] = []
    for pattern in _PATTERNS:
        for path in sorted(run.root.glob(pattern)) if run.root.is_dir() else ():
            if not path.name.startswith("__grp__"):
                folders.append(_folder(path, run))
    best = set(_best(run))
    sources = Counter(folder.source for folder in folders)
    return tuple(
        replace(folder, chosen=folder.key in best or sources[folder.source] == 1) for folder in folders
    )


def folders_of(kernel: Kernel, folders: Iterable[LoweredFolder]) -> tuple[LoweredFolder, ...]:
    """Those of a kernel, the chosen configuration first."""
    path = dict(kernel.metadata).get("kernel path", "")
    file = path.replace("\\", "/").rsplit("/", 1)[-1]
    own = [
        folder
        for folder in folders
        if folder.source is not None
        and (folder.source.file == file if file else folder.function == kernel.function)
    ]
    return tuple(sorted(own, key=lambda folder: (not folder.chosen, folder.key)))


def read_stage(folder: LoweredFolder, name: str, run: RunFiles) -> Stage:
    """One stage of a folder that has it."""
    path = folder.files[name]
    label = run.label(path)
    text, problems = read_text(path, label)
    empty = Stage(name, label, tuple(text.split("\n")), (None,) * (text.count("\n") + 1))
    stage, failed = guarded(lambda: _PARSERS[name](name, text, label), empty, label, "it")
    return replace(stage, problems=(*problems, *stage.problems, *failed))


def _best(run: RunFiles) -> Iterable[str]:
    for pattern in _BEST:
        for path in run.root.glob(pattern) if run.root.is_dir() else ():
            data, _ = _object(path, run)
            if isinstance(key := data.get("triton_cache_hash"), str):
                yield key


def _folder(path: Path, run: RunFiles) -> LoweredFolder:
    data, problems = _object(path, run)
    files = {name: file for name in (*STAGES, "cubin") if (file := path.with_suffix(f".{name}")).is_file()}
    source = next(filter(None, (_source(files[name]) for name in ("ttir", "ttgir") if name in files)), None)
    return LoweredFolder(
        path.parent.name,
        str(data.get("name") or path.stem),
        files,
        _target(data.get("target")),
        warps=_count(data.get("num_warps")),
        stages=_count(data.get("num_stages")),
        ctas=_count(data.get("num_ctas")),
        shared_bytes=_count(data.get("shared")),
        triton_version=version if isinstance(version := data.get("triton_version"), str) else None,
        source=source,
        problems=problems,
    )


def _object(path: Path, run: RunFiles) -> Read[dict[str, Any]]:
    """A JSON file's object; empty, with a problem, where it holds none."""
    label = run.label(path)
    text, problems = read_text(path, label)
    try:
        data = from_json(text)
    except ValueError as error:
        data = None
        problems = (*problems, Problem(label, None, f"no JSON: {error}"))
    return (data if isinstance(data, dict) else {}), problems


def _source(path: Path) -> Frame | None:
    """The place of the kernel's function, which heads the table of places (``#loc``)."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            match = _FUNCTION.search(file.read(_HEAD))
    except OSError:
        return None
    return Frame(match[1], int(match[2]), int(match[3])) if match is not None else None


def _count(value: Any) -> int | None:  # noqa: ANN401
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _target(value: Any) -> Target | None:  # noqa: ANN401
    if not isinstance(value, dict) or "arch" not in value:
        return None
    return Target(str(value.get("backend", "")), str(value["arch"]), _count(value.get("warp_size")) or 32)
