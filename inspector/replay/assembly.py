"""Keeps what C++ kernels of a capture were compiled to, as assembly with the lines that it is from.

``capture --asm`` has torch compile with line tables (`LINE_TABLES`). Libraries of older versions of torch
have no lines.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import time
from pathlib import Path

from inspector.frozen import dataclass
from inspector.model.code import Kernel
from inspector.readers.run import Run
from inspector.readers.stages.files import MADE, own_file
from inspector.replay.loops import throughput

OBJDUMP = ("objdump", "-dl", "--inlines", "--no-show-raw-insn")
_CLANG = b"clang version"
_SYMBOLIZER = ("llvm-symbolizer", "--output-style=JSON")
#    2a0c:	vpermt2ps %zmm0,%zmm6,%zmm1
_ADDRESS = re.compile(r"\s+([0-9a-f]+):\t")
# /cache/kernel.cpp:31 (discriminator 3)    inlined by /cache/kernel.cpp:31 (kernel)
_PLACE = re.compile(r"(?:inlined by )?/.+:(?:\d+|\?)(?: \(.*\))?$")
_STEP_S = 60
_LONGEST_NAME = 150
_CAPABILITY = re.compile(r"CPU_CAPABILITY_(\w+)")


@dataclass(frozen=True, slots=True)
class KeptAssembly:
    """How many kernels' assembly is in the run, how many had no lines, how long it took, and why some of it
    is not there."""

    kernels: int
    without_lines: int
    seconds: float
    problem: str | None = None


def keep_assembly(run: Run) -> KeptAssembly:
    """Disassembles the libraries that torch compiled for the run's C++ kernels."""
    started = time.perf_counter()
    sources = {path: path.read_text(errors="replace") for path in run.root.glob("cache/inductor/*/*.cpp")}
    codes = (graph.code() for graph in run.graphs)
    kernels = {
        own_file(each): each
        for code in codes
        if code is not None
        for each in code.kernels
        if each.kind == "cpp"
    }
    kept = bare = 0
    problem = None
    for kernel in kernels.values():
        body = kernel.source.strip()
        path = next((path for path, text in sources.items() if body in text), None)
        library = path.with_suffix(".so") if path is not None else None
        if path is None or library is None or not library.is_file():
            continue
        try:
            done = subprocess.run(
                [*OBJDUMP, str(library)], capture_output=True, text=True, errors="replace", timeout=_STEP_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = f"objdump: {error}"
            break
        text = _with_own_lines(with_inlined(done.stdout, library), path, sources[path], kernel)
        if text is None:
            bare += 1
            continue
        _write(run, kernel, text, sources[path])
        kept += 1
    return KeptAssembly(kept, bare, time.perf_counter() - started, problem)


def with_inlined(text: str, library: Path) -> str:
    """What objdump printed of a library that clang made, with the places that llvm-symbolizer knows: GNU
    objdump (2.40) does not find what was inlined in DWARF 5 of clang. As it is where that tool is missing."""
    if _CLANG not in library.read_bytes() or shutil.which(_SYMBOLIZER[0]) is None:
        return text
    lines = [line for line in text.split("\n") if not _PLACE.match(line)]
    addresses = [match[1] for line in lines if (match := _ADDRESS.match(line)) is not None]
    try:
        done = subprocess.run(
            [*_SYMBOLIZER, f"--obj={library}"], input="\n".join(f"0x{each}" for each in addresses),
            capture_output=True, text=True, errors="replace", timeout=_STEP_S, check=True,
        )  # fmt: skip
        frames = iter([json.loads(line)["Symbol"] for line in done.stdout.splitlines()])
        made = []
        for line in lines:
            if _ADDRESS.match(line) is not None:
                for number, each in enumerate(next(frames)):
                    place = f"{each['FileName']}:{each['Line']}"
                    made.append(f"inlined by {place} ({each['FunctionName']})" if number else place)
            made.append(line)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError, StopIteration):
        return text
    return "\n".join(made)


def _with_own_lines(text: str, path: Path, source: str, kernel: Kernel) -> str | None:
    """The disassembly with places in the kernel's own file, as lowering writes it; None where it has none."""
    begin = source.index(kernel.source.strip())
    shift = source[:begin].count("\n") - _above(kernel)
    place = re.compile(rf"[^\s:]*{re.escape(path.name)}:(\d+)")
    moved, times = place.subn(lambda match: f"/{own_file(kernel)}:{int(match[1]) - shift}", text)
    return moved if times else None


def _above(kernel: Kernel) -> int:
    """Lines above the kernel's first in the file that lowering writes: one, and those that are empty."""
    return 1 + len(kernel.source) - len(kernel.source.lstrip("\n"))


def _write(run: Run, kernel: Kernel, text: str, source: str) -> None:
    key = hashlib.sha256(kernel.source.encode()).hexdigest()
    folder = run.root / MADE / key
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / kernel.name[:_LONGEST_NAME]
    stem.with_name(f"{stem.name}.asm").write_text(text, encoding="utf-8")
    capability = _CAPABILITY.search(source)
    facts = {
        "name": kernel.function,
        "hash": key,
        "target": {"backend": "cpu", "arch": capability[1].lower() if capability else "cpu"},
        "source": own_file(kernel),
        "captured": True,
        "throughput": throughput(text, kernel.name),
    }
    stem.with_name(f"{stem.name}.json").write_text(json.dumps(facts), encoding="utf-8")
