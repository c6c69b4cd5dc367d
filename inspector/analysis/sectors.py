"""Of the memory sectors that a Triton kernel fetches, the part that its own indices use."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from inspector.model.code import Kernel

from .index_steps import addresses

SECTOR_BYTES = 32
"""What memory hands over at least (CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory")."""
# *fp32, *bf16, *fp8e4nv, *i1
_POINTER = re.compile(r"\*(?:fp|bf|i|u)(\d+)")


class Sparse(NamedTuple):
    """A parameter of a kernel of which only every `step`-th element is read or written. `used` is the part of
    what is fetched, `row` the first of its lines in the kernel's source, from 1."""

    step: int
    used: float
    row: int
    text: str


def sparse_accesses(kernel: Kernel) -> Mapping[str, Sparse]:
    """By the parameter's name. None of those whose index is data, or moves by what is no constant."""
    rowwise = is_split_scan(kernel)
    items = {each.name: _item_bytes(each.type) for each in kernel.parameters}
    rows: dict[str, int] = {}
    steps: dict[str, int] = defaultdict(int)
    offsets: dict[str, set[int]] = defaultdict(set)
    unknown: set[str] = set()
    lines = kernel.source.split("\n")
    for row, line in enumerate(lines, 1):
        for address in addresses(line) if "tl.load(" in line or "tl.store(" in line else ():
            name = address.pointer
            rows.setdefault(name, row)
            if address.offset is None or not address.steps or None in address.steps.values():
                unknown.add(name)
                continue
            offsets[name].add(address.offset)
            moved = (step for own, step in address.steps.items() if not (rowwise and own.startswith("x")))
            steps[name] = math.gcd(steps[name], *(step for step in moved if step is not None))
    result = {}
    for name, step in steps.items():
        item = items.get(name)
        if name in unknown or item is None or step < 2:
            continue
        places = len({offset % step for offset in offsets[name]})
        used = min(1.0, places / min(step, max(SECTOR_BYTES // item, 1)))
        if used < 1:
            result[name] = Sparse(step, used, rows[name], lines[rows[name] - 1].strip())
    return result


def is_split_scan(kernel: Kernel) -> bool:
    """Whether each program goes along a part of one row of a scan
    (torch/_inductor/codegen/triton_split_scan.py: TritonSplitScanKernel)."""
    return kernel.heuristic == "split_scan"


def _item_bytes(pointer: str) -> int | None:
    match = _POINTER.match(pointer)
    return max(int(match[1]) // 8, 1) if match is not None else None
