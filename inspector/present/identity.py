"""What a run is called, and what stands beside its name: torch, devices, graphs, breaks, recompiles."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from inspector.units import percent, plural, size

if TYPE_CHECKING:
    from inspector.model.run import RunFacts


def run_name(shown: str) -> str:
    return os.path.basename(os.path.normpath(os.path.abspath(shown))) or shown


def identity(name: str, graphs: int | None, facts: RunFacts | None) -> str:
    """`softmax · torch 2.13.0+cpu · cpu · 1 graph`"""
    parts = [name]
    if facts is not None:
        parts.append(f"torch {facts.torch_version}" if facts.torch_version else "torch version unknown")
        parts.append(", ".join(facts.devices) or "device unknown")
    parts += [plural(graphs, "graph")] if graphs is not None else []
    if facts is not None:
        parts += [plural(facts.ranks, "rank")] if facts.ranks > 1 else []
        parts += event_counts(facts)
    return " · ".join(parts)


def event_counts(facts: RunFacts) -> list[str]:
    """`1 graph break`, `2 recompiles`; nothing of what did not happen."""
    counts = ((len(facts.graph_breaks), "graph break"), (len(facts.recompiles), "recompile"))
    return [plural(number, noun) for number, noun in counts if number]


def unpacking_text(name: str, part: tuple[float, int] | None) -> str:
    """`unpacking run.tar.xz: 42 % of 12.3 MB`; `part`: how far it is, 0 to 1, and the packed bytes."""
    return f"unpacking {name}" + (f": {percent(part[0])} of {size(part[1])}" if part is not None else "")
