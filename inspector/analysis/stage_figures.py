"""What a kernel was lowered to in numbers, to compare one source of it with another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from inspector.model.lowering import LoweredFolder, Stage

from .stage_facts import facts_of


def stage_figures(folder: LoweredFolder, stages: Iterable[Stage]) -> Mapping[str, int]:
    """Registers, memory and instructions by name; absent is what nothing is known of."""
    known = {
        "registers": folder.registers,
        "bytes of local memory": folder.spill_bytes,
        "bytes of shared memory": folder.shared_bytes,
    }
    figures = {name: value for name, value in known.items() if value is not None}
    facts = {stage.name: facts_of(stage) for stage in stages}
    last = facts.get("sass") or facts.get("asm")
    if last is not None:
        figures["instructions"] = last.instructions
        figures.update((f"of these {kind}", count) for kind, count in last.mix.items())
    access = facts.get("sass") or facts.get("ptx")
    for noun, writes in (("loads", False), ("stores", True)) if access is not None else ():
        assert access is not None
        figures.update(
            (f"{noun} of {bits} bits", count) for bits, count in access.widths("global", writes).items()
        )
    if (layouts := facts.get("ttgir")) is not None:
        figures["layout conversions"] = len(layouts.conversions)
        figures["bytes of tensors that change layout"] = sum(each.bytes or 0 for each in layouts.conversions)
    return figures
