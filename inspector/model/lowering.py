"""What a kernel was lowered to: Triton's stages down to PTX and SASS, and the place each line came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import NamedTuple

from inspector.frozen import dataclass

from .problem import Problem

STAGES = ("ttir", "ttgir", "llir", "ptx", "sass", "amdgcn", "asm")
"""Triton's stages of text, in order of lowering (triton/backends/nvidia/compiler.py: add_stages), and the
disassembly of what it makes in the end; of a C++ kernel only that, as `asm`."""
INSTRUCTIONS = ("ptx", "sass", "amdgcn", "asm")
"""Those of them that a processor's instructions can be told from."""
NO_LOOPS = "-fno-tree-loop-vectorize"
"""What Inductor tells g++ (torch/_inductor/cpp_builder.py: _get_optimization_cflags): vectors are where it
wrote them itself, and g++ gives no reason for a loop that it was not asked about."""


class Frame(NamedTuple):
    """A place in a source file. `path` is as the compiler wrote it, or its last part where only that is
    known; `column` is None where none was written."""

    path: str
    line: int
    column: int | None = None

    @property
    def file(self) -> str:
        """The path's last part, by which files of a run are known on any machine."""
        return self.path.replace("\\", "/").rsplit("/", 1)[-1]


Place = tuple[Frame, ...]
"""Where an instruction came from: the innermost frame first, its callers behind it; several chains, one after
another, where the compiler fused instructions. Empty for what the compiler made and gave no place."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage's text. `places` has an entry for each line of `lines`: None for what is no instruction
    (headers, labels, braces, comments, tables of places)."""

    name: str
    path: str
    lines: tuple[str, ...]
    places: tuple[Place | None, ...]
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """``GPUTarget("cuda", 90, 32)``: `arch` is 90 for an H100 and ``gfx942`` for an MI300; for a CPU it is
    what Inductor calls its vector instructions, such as ``avx512``."""

    backend: str
    arch: str
    warp_size: int = 32

    def __str__(self) -> str:
        return f"sm_{self.arch}" if self.backend == "cuda" else self.arch


class Unvectorised(NamedTuple):
    """A loop that a compiler did not vectorise: a line of it in the file that the places name, and what it
    says. g++ was asked in a second compilation, as Inductor forbids it; clang says it of what it made."""

    line: int
    reason: str
    compiler: str = "g++"


class Throughput(NamedTuple):
    """What llvm-mca expects of a loop of assembly (lines from 1) where all data is in the first cache:
    cycles of a round, and those that the busiest unit alone would take."""

    first: int
    last: int
    cycles: float
    busiest: float

    @property
    def waits(self) -> bool:
        """Whether it is instructions that wait for each other that take most of a round."""
        return self.cycles > 1.5 * self.busiest


@dataclass(frozen=True, slots=True)
class LoweredFolder:
    """One folder of Triton's cache: a kernel as compiled with one configuration.

    `function` is the kernel's name, `key` the folder's, which best_config files name. `files` are by stage.
    `shared_bytes` is a block's shared memory. None: the JSON does not say.
    """

    key: str
    function: str
    files: Mapping[str, Path]
    target: Target | None = None
    warps: int | None = None
    stages: int | None = None
    ctas: int | None = None
    shared_bytes: int | None = None
    triton_version: str | None = None
    source: Frame | None = None
    """Where the kernel's function begins: the line of its ``def`` in the file that Inductor wrote for it."""
    registers: int | None = None
    """Of a thread, and the bytes that it spills, as cuobjdump says."""
    spill_bytes: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    """Block sizes and options, where they are known."""
    made: bool = False
    """Whether it was lowered on request, and not by the run."""
    notes: tuple[str, ...] = ()
    chosen: bool = False
    """Whether autotuning chose it, or it is the only one of its source."""
    unvectorised: tuple[Unvectorised, ...] | None = None
    """None where g++ was not asked."""
    throughput: tuple[Throughput, ...] = ()
    modelled: str | None = None
    """The processor that llvm-mca's expectations are of."""
    problems: tuple[Problem, ...] = ()
