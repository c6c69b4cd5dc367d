"""What the recorder kept beside decisions, in `inspector summary`: results of kernels, saved inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inspector.model.record import ProcessRecord, RecordedKernel
from inspector.present.fusion import bytes_text

_MAX_NAMED = 4


def record_lines(records: Sequence[ProcessRecord]) -> list[str]:
    """A line for the kernels and one for the inputs; none for what was not recorded."""
    return [*_kernel_lines(records), *_input_lines(records)]


def _kernel_lines(records: Sequence[ProcessRecord]) -> list[str]:
    kernels = [kernel for record in records for kernel in record.kernels]
    choices = [table for record in records for table in record.choices]
    parts = []
    if kernels:
        tuned = sum(len(kernel.tried) > 1 for kernel in kernels)
        parts.append(f"{len(kernels)} kernel{'s' * (len(kernels) != 1)} with registers and configuration")
        if tuned:
            parts.append(f"{tuned} tuned")
        parts.append(_spills([kernel for kernel in kernels if kernel.spills]))
    if choices:
        parts.append(f"max-autotune's choices for {len(choices)} operation{'s' * (len(choices) != 1)}")
    return [f"recorded: {', '.join(parts)}"] if parts else []


def _spills(spilling: Sequence[RecordedKernel]) -> str:
    if not spilling:
        return "none spills"
    worst = sorted(spilling, key=lambda kernel: -(kernel.spills or 0))
    named = ", ".join(f"{kernel.name} {kernel.spills}" for kernel in worst[:_MAX_NAMED])
    more = f" and {len(worst) - _MAX_NAMED} more" if len(worst) > _MAX_NAMED else ""
    return f"registers spilled by {named}{more}"


def _input_lines(records: Sequence[ProcessRecord]) -> list[str]:
    saved = [item for record in records for item in record.inputs]
    kept = [item for item in saved if item.file is not None]
    lines = []
    if kept:
        size = bytes_text(sum(item.bytes for item in kept))
        line = f"saved inputs: {size} of {len(kept)} graph{'s' * (len(kept) != 1)}"
        short = sum(len(item.left_out) for item in kept)
        if short:
            size = bytes_text(sum(item.left_out_bytes for item in kept))
            line += f"; {short} argument{'s' * (short != 1)} ({size}) left out, over --save-inputs's size"
        lines.append(line)
    lines += [f"saved inputs: none of {item.graph}: {item.problem}" for item in saved if item.file is None]
    return lines


def kernels_json(records: Sequence[ProcessRecord]) -> list[dict[str, Any]]:
    """Each kernel's results; `tried` is the autotuning table, fastest first, times in milliseconds."""
    return [
        {
            "name": kernel.name,
            "graph": kernel.graph,
            "rank": record.rank,
            "registers": kernel.registers,
            "spills": kernel.spills,
            "shared_bytes": kernel.shared_bytes,
            "config": dict(kernel.config),
            "chosen_by": kernel.chosen_by,
            "tried": [{"config": dict(config), "ms": time} for config, time in kernel.tried],
            "refused": kernel.refused,
        }
        for record in records
        for kernel in record.kernels
    ]


def inputs_json(records: Sequence[ProcessRecord]) -> list[dict[str, Any]]:
    """What was kept of each graph's first call; positions count the graph's arguments from 0."""
    return [
        {
            "graph": item.graph,
            "rank": record.rank,
            "file": item.file,
            "arguments": item.arguments,
            "bytes": item.bytes,
            "left_out": list(item.left_out),
            "left_out_bytes": item.left_out_bytes,
            "unknown": list(item.unknown),
            "problem": item.problem,
        }
        for record in records
        for item in record.inputs
    ]
