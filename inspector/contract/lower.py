"""`inspector.lower/1`: what `lower --json` prints: kernels, their stages, what each line is from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inspector.analysis.lowering import LoweredKernel
from inspector.model.lowering import Stage

from .fields import COMMON, pick, place_text, shaped

SCHEMA = "inspector.lower/1"
_REGISTER = 4


def to_json(kernels: Iterable[LoweredKernel], stage: str | None = None) -> dict[str, Any]:
    """`stages` are paths, but for the one that is asked for, whose text it has; `lines` are its, or without
    one those of all stages: an entry for each instruction."""
    return {"schema": SCHEMA, "kernels": [_kernel(kernel, stage) for kernel in kernels]}


def _kernel(item: LoweredKernel, stage: str | None) -> dict[str, Any]:
    folder, seen = item.folder, item.recorded
    sass, ptx, layouts = (item.facts(name) for name in ("sass", "ptx", "ttgir"))
    sass = sass or item.facts("asm")
    access = sass or ptx
    registers = folder.registers if folder is not None else None
    spilled = folder.spill_bytes if folder is not None else None
    shared = folder.shared_bytes if folder is not None else None
    return {
        "graph": item.graph,
        "kernel": item.kernel.name,
        "target": str(folder.target) if folder is not None and folder.target is not None else None,
        "triton_version": folder.triton_version if folder is not None else None,
        "run_triton_version": item.run_triton,
        "warps": folder.warps if folder is not None else None,
        "configurations": len(item.others) + (folder is not None),
        "chosen": folder.chosen if folder is not None else None,
        "stages": {each.name: _text(each) if each.name == stage else each.path for each in item.stages},
        "registers": registers if registers is not None else seen.registers if seen is not None else None,
        "spills": spilled // _REGISTER if spilled is not None else seen.spills if seen is not None else None,
        "recorded": pick(seen, "registers spills shared_bytes") if seen is not None else None,
        "made": folder.made if folder is not None else False,
        "shared_bytes": shared if shared is not None else seen.shared_bytes if seen is not None else None,
        "occupancy": fits._asdict() if (fits := item.occupancy) is not None else None,
        "instructions": dict(sass.mix) if sass is not None else {},
        "tensor_cores": dict(sass.tensor_cores) if sass is not None else {},
        "loops": [
            {
                **pick(loop, "first last instructions bits"),
                "throughput": pick(expected, "cycles busiest")
                if (expected := item.throughput(loop)) is not None
                else None,
            }
            for loop in sass.loops
        ]
        if sass is not None
        else [],
        "accesses": [pick(each, "line space writes bits") for each in access.accesses] if access else [],
        "narrow": [
            {
                "code_line": each.origin.line,
                "source": place_text(each.origin.source),
                **pick(each, "text writes bits count steps"),
            }
            for each in item.narrow()
        ],
        "spread": [
            {
                "code_line": each.origin.line,
                "source": place_text(each.origin.source),
                **pick(each, "text space writes count units least line"),
            }
            for each in item.spread()
        ],
        "bank_conflicts": pick(conflicts, "rounds least instructions lost")
        if (conflicts := item.conflicts) is not None
        else None,
        "throughput_model": folder.modelled if folder is not None else None,
        "unvectorised": [
            {"code_line": each.line, "reason": each.reason, "compiler": each.compiler}
            for each in item.unvectorised()
        ],
        "conversions": [pick(each, "line source target bytes") for each in layouts.conversions]
        if layouts
        else [],
        "lines": [
            entry for each in item.stages if stage in (None, each.name) for entry in _lines(item, each)
        ],
        "problems": shaped(item.problems, COMMON),
    }


def _text(stage: Stage) -> str:
    return "\n".join(stage.lines)


def _lines(item: LoweredKernel, stage: Stage) -> Iterable[dict[str, Any]]:
    for number, place in enumerate(stage.places, 1):
        origin = item.origin(place)
        if origin is not None:
            yield {
                "stage": stage.name,
                "line": number,
                "code_line": origin.line,
                "source": place_text(origin.source),
                "sources": [place_text(place) for place in origin.sources],
                "nodes": sorted(origin.nodes),
            }
