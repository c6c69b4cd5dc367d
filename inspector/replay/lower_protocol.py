"""What the parent asks of the child that lowers kernels; it answers with `protocol`'s events.

A kernel's stages lie in a folder of their own below `LowerRequest.folder`, with the names that Triton's cache
has, so that the same reader reads both; beside them the disassembly (``.sass``) and what
``cuobjdump -res-usage`` says (``.usage``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inspector.model.codec import from_data, to_data


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
class LowerRequest:
    """Where `folder` is one that the child may write in. `done`: jobs of earlier children."""

    jobs: tuple[LowerJob, ...]
    folder: Path
    memory_bytes: int | None = None
    done: tuple[int, ...] = ()

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(to_data(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> LowerRequest:
        """Raises OSError, and ValueError for what `write` did not write."""
        return from_data(cls, json.loads(path.read_text(encoding="utf-8")))
