"""Callers of what was inlined, for a disassembly that does not name them.

Up to Triton 3.6 PTX says in a comment alone where a helper was inlined, so that ptxas knows of ``maximum``
only its own line. The callers of that line are those that PTX has: one, or all where it is called twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from inspector.model.lowering import Frame, Place, Stage


def with_callers(stages: Sequence[Stage], file: str | None) -> tuple[Stage, ...]:
    """The stages, SASS with PTX's callers where no frame of an instruction is of `file`, the kernel's."""
    named = {stage.name: stage for stage in stages}
    sass, ptx = named.get("sass"), named.get("ptx")
    if sass is None or ptx is None or file is None:
        return tuple(stages)
    chains: dict[tuple[str, int], dict[Place, None]] = {}
    for place in ptx.places:
        if place and any(frame.file == file for frame in place):
            chains.setdefault(_key(place[0]), {})[place] = None
    known = {key: tuple(frame for chain in own for frame in chain) for key, own in chains.items()}
    places = tuple(
        known.get(_key(place[0]), place) if place and all(frame.file != file for frame in place) else place
        for place in sass.places
    )
    return tuple(replace(sass, places=places) if stage is sass else stage for stage in stages)


def _key(frame: Frame) -> tuple[str, int]:
    return frame.file, frame.line
