"""Triton's cache folders of a run: what each holds, and which kernel it belongs to.

Triton writes ``NAME.ttir .ttgir .llir .ptx .cubin .json`` into ``triton/HASH/`` (triton/compiler/compiler.py:
compile; the name cut at 150 characters); Inductor keeps such folders for each device below its own cache.
A kernel's folders are known by the file that its locations name, which Inductor wrote for its source and
names in the comment above the kernel; which configuration was chosen, by Inductor's ``.best_config``.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from inspector.model.code import Kernel
from inspector.model.lowering import STAGES, Frame, LoweredFolder, Stage, Target, Throughput, Unvectorised
from inspector.model.problem import Problem, Read
from inspector.readers.run_files import RunFiles
from inspector.readers.text import from_json, guarded, read_text

from .amdgcn import parse_amdgcn, parse_counts
from .llvm import parse_llvm
from .mlir import parse_mlir
from .objdump import parse_objdump
from .ptx import parse_ptx
from .sass import parse_sass, parse_usage

MADE = "lowered"
"""The folder of a run that holds what was lowered on request."""
LINE_TABLES = ("TORCHINDUCTOR_DEBUG_SYMBOL", "1")
"""The variable by which torch compiles C++ with line tables, and otherwise as without it
(torch/_inductor/cpp_builder.py: _get_optimization_cflags). Older versions do not know it."""
STAGE_FILES = (*STAGES, "cubin", "usage", "json")
"""How the names of a folder's files end."""

_PATTERNS = ("cache/triton/*/*.json", "cache/inductor/triton/*/*/*.json", "triton/*/*.json")
_BEST = ("cache/inductor/*/*.best_config", "*/*.best_config")
_PARSERS = {
    "ttir": parse_mlir,
    "ttgir": parse_mlir,
    "llir": parse_llvm,
    "ptx": parse_ptx,
    "sass": parse_sass,
    "amdgcn": parse_amdgcn,
    "asm": parse_objdump,
}
_FUNCTION = re.compile(r'^#loc = loc\("((?:[^"\\]|\\.)*)":(\d+):(\d+)\)$', re.M)
# 'device': DeviceProperties(type='cuda', index=0, multi_processor_count=132, cc=90, ...)
_DEVICE = re.compile(r"DeviceProperties\(type='(\w+)'(?:(?!DeviceProperties\().)*?\bcc='?(\w+)")
_HEAD = 4096
_REGISTER = 4
_ABOUT = ("configs_hash", "found_by_coordesc", "time_taken_ms", "triton_cache_hash")
"""What a .best_config says of itself, beside the configuration."""


def lowered_folders(run: RunFiles, made: Path | None = None) -> tuple[LoweredFolder, ...]:
    """Every folder of Triton's cache that the run holds, by name, and those that were made on request: in the
    run, or in `made`. Reads their JSON and a few lines each. A disassembly of a run's own binary is that
    folder's."""
    folders: list[LoweredFolder] = []
    for pattern in _PATTERNS:
        for path in sorted(run.root.glob(pattern)) if run.root.is_dir() else ():
            if not path.name.startswith("__grp__"):
                folders.append(_folder(path, run))
    best = dict(_best(run))
    sources = Counter(folder.source for folder in folders)
    own = {
        folder.key: replace(
            folder,
            chosen=folder.key in best or sources[folder.source] == 1,
            config=best.get(folder.key, {}),
        )
        for folder in folders
    }
    for path in sorted((made or run.root / MADE).glob("*/")):
        if (folder := own.get(path.name)) is not None:
            own[path.name] = _with_disassembly(folder, path, run)
        else:
            for each in path.glob("*.json"):
                own[path.name] = _folder(each, run, made=True)
    return tuple(own.values())


def folders_of(
    kernel: Kernel, folders: Iterable[LoweredFolder], target: str | None = None
) -> tuple[LoweredFolder, ...]:
    """Those of a kernel for that target, by default its own: what the run left first, and of it the chosen
    configuration."""
    wanted = target or own_target(kernel)
    # A user's Triton kernel has no such comment in every version; every C++ kernel's function is `kernel`.
    by_function = kernel.kind != "cpp" and "kernel path" not in dict(kernel.metadata)
    own = [
        folder
        for folder in folders
        if folder.source is not None
        and (
            folder.source.file == own_file(kernel)
            or (by_function and not folder.made and folder.function == kernel.function)
        )
        and (str(folder.target) == wanted or (target is None and (not folder.made or kernel.kind == "cpp")))
    ]
    return tuple(sorted(own, key=lambda folder: (folder.made, not folder.chosen, folder.key)))


def own_file(kernel: Kernel) -> str:
    """The name of the file that Inductor wrote for the kernel's source; where that is not known, one that no
    other source has."""
    file = dict(kernel.metadata).get("kernel path", "").replace("\\", "/").rsplit("/", 1)[-1]
    if file.endswith(".py"):
        return file
    mark = hashlib.sha256(kernel.source.encode()).hexdigest()[:12]
    return f"{kernel.name}-{mark}.{'cpp' if kernel.kind == 'cpp' else 'py'}"


def own_target(kernel: Kernel) -> str | None:
    """What the kernel was generated for, as its decorator says."""
    match = _DEVICE.search(dict(kernel.metadata).get("triton_meta", ""))
    return str(Target(match[1], match[2])) if match is not None else None


def read_stage(folder: LoweredFolder, name: str, run: RunFiles) -> Stage:
    """One stage of a folder that has it."""
    path = folder.files[name]
    label = run.label(path)
    text, problems = read_text(path, label)
    empty = Stage(name, label, tuple(text.split("\n")), (None,) * (text.count("\n") + 1))
    stage, failed = guarded(lambda: _PARSERS[name](name, text, label), empty, label, "it")
    return replace(stage, problems=(*problems, *stage.problems, *failed))


def _best(run: RunFiles) -> Iterable[tuple[str, dict[str, str]]]:
    """The folder's name and the configuration of each kernel that was tuned."""
    for pattern in _BEST:
        for path in run.root.glob(pattern) if run.root.is_dir() else ():
            data, _ = _object(path, run)
            if isinstance(key := data.get("triton_cache_hash"), str):
                yield key, {name: str(value) for name, value in data.items() if name not in _ABOUT}


def _files(stem: Path) -> dict[str, Path]:
    places = {name: stem.with_name(f"{stem.name}.{name}") for name in STAGE_FILES}
    return {name: path for name, path in places.items() if path.is_file()}


def _with_disassembly(folder: LoweredFolder, path: Path, run: RunFiles) -> LoweredFolder:
    sass = next(path.glob("*.sass"), None)
    return (
        _with_usage(replace(folder, files={**_files(sass.with_suffix("")), **folder.files}), run)
        if sass
        else folder
    )


def _with_usage(folder: LoweredFolder, run: RunFiles) -> LoweredFolder:
    if "amdgcn" in folder.files:
        counts = parse_counts(read_text(folder.files["amdgcn"], folder.key)[0])
        spilled = counts.get("vgpr_spill_count")
        return replace(
            folder,
            registers=counts.get("vgpr_count"),
            spill_bytes=spilled * _REGISTER if spilled is not None else None,
        )
    if "usage" not in folder.files:
        return folder
    usage = parse_usage(read_text(folder.files["usage"], run.label(folder.files["usage"]))[0])
    # ptxas puts what it spills into the stack frame.
    frame = usage["STACK"] + usage.get("LOCAL", 0) if "STACK" in usage else None
    return replace(folder, registers=usage.get("REG"), spill_bytes=frame)


def _folder(path: Path, run: RunFiles, made: bool = False) -> LoweredFolder:
    data, problems = _object(path, run)
    files = _files(path.with_suffix(""))
    # A capture's own libraries, disassembled when it ended.
    made = made and data.get("captured") is not True
    lowered = data.get("lowered") if made else None
    about: dict[str, Any] = lowered if isinstance(lowered, dict) else {}
    config, notes = about.get("config"), about.get("notes")
    source = next(filter(None, (_source(files[name]) for name in ("ttir", "ttgir") if name in files)), None)
    if source is None and isinstance(file := data.get("source"), str):
        source = Frame(file, 1)
    folder = LoweredFolder(
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
        config={str(key): str(value) for key, value in config.items()} if isinstance(config, dict) else {},
        notes=tuple(map(str, notes)) if isinstance(notes, list) else (),
        made=made,
        chosen=made or data.get("captured") is True,
        **_of_loops(data),
    )
    return _with_usage(folder, run)


def _of_loops(data: dict[str, Any]) -> dict[str, Any]:
    """What compilers said of a C++ kernel's loops (replay/loops.py writes it)."""
    said = data.get("throughput")
    expected = said if isinstance(said, dict) else {}
    reasons, rounds = data.get("unvectorised"), expected.get("loops")
    return {
        "unvectorised": tuple(
            Unvectorised(line, str(reason), str(data.get("vectoriser") or "g++"))
            for line, reason in _rows(reasons, 2)
            if _count(line) is not None
        )
        if isinstance(reasons, list)
        else None,
        "throughput": tuple(
            Throughput(first, last, float(cycles), float(busiest))
            for first, last, cycles, busiest in _rows(rounds, 4)
            if None not in (_count(first), _count(last))
            and all(isinstance(each, int | float) for each in (cycles, busiest))
        ),
        "modelled": str(expected["model"]) if "model" in expected else None,
    }


def _rows(value: object, size: int) -> list[list[Any]]:
    """Those of a list that are lists of that size."""
    rows = value if isinstance(value, list) else []
    return [row for row in rows if isinstance(row, list) and len(row) == size]


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
