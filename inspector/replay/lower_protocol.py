"""What the parent asks of the child that lowers kernels; it answers with `protocol`'s events.

A kernel's stages lie in a folder of their own below `LowerRequest.folder`, with the names that Triton's cache
has, so that the same reader reads both; beside them the disassembly (``.sass``) and what
``cuobjdump -res-usage`` says (``.usage``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from inspector.frozen import dataclass
from inspector.replay.protocol import Asked


@dataclass(frozen=True, slots=True)
class LowerJob:
    """One Triton kernel, or one in C++ (`cpp`).

    `file` is the name of the file that Inductor wrote for `source`, which the places in the stages will name.
    `config`: as it was chosen, empty where nobody recorded it. `target`: ``sm_90`` or ``gfx942``, None for
    the kernel's own. `cubin`: only disassemble that one.
    """

    name: str
    function: str
    file: str
    source: str
    config: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    cubin: Path | None = None
    cpp: bool = False


@dataclass(frozen=True, slots=True)
class LowerRequest(Asked):
    """Where `folder` is one that the child may write in. `done`: jobs of earlier children."""

    jobs: tuple[LowerJob, ...]
    folder: Path
    memory_bytes: int | None = None
    done: tuple[int, ...] = ()
