"""What Linux shows of processes in /proc; nothing on other systems."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/proc")


def environments() -> Iterator[tuple[int, bytes]]:
    """Each process that has a program and may be looked at, with its environment: empty for one that began
    with none, and while a program is being started (fs/binfmt_elf.c: create_elf_tables)."""
    for folder in _ROOT.glob("[0-9]*"):
        try:
            (folder / "exe").readlink()
            yield int(folder.name), (folder / "environ").read_bytes()
        except OSError:
            continue


def began(pid: int) -> int:
    """When it was started, in ticks since the machine was; 0 where that is not known."""
    try:
        return int((_ROOT / str(pid) / "stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def memory_of(pid: int) -> int:
    """Bytes of memory that a process holds, 0 where that is not known."""
    try:
        pages = (_ROOT / str(pid) / "statm").read_bytes().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, AttributeError):
        return 0
