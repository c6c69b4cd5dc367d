"""Several replays of one run taken together: what is known of a graph now, and how a kernel's time went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from inspector.frozen import dataclass
from inspector.model.peaks import Peaks
from inspector.model.replay import GraphReplay, KernelReplay, ReplayResult


@dataclass(frozen=True, slots=True)
class PastKernel:
    """One earlier measurement of a launch; `started` in seconds since the epoch, `device` where it ran."""

    started: float
    device: str
    kernel: KernelReplay


def merged(older: GraphReplay | None, newer: GraphReplay) -> GraphReplay:
    """What is known of a graph after `newer`: a replay of some kernels leaves the rest as it was.

    Eager, compiled and outputs belong together and are taken from the newest replay that timed the graph.
    """
    if older is None:
        return newer
    kernels = {kernel.call: kernel for kernel in older.kernels}
    kernels.update(
        {
            kernel.call: kernel
            for kernel in newer.kernels
            if kernel.method != "none" or kernel.call not in kernels
        }
    )
    whole = tuple(kernels[call] for call in sorted(kernels))
    if newer.compiled is None and newer.eager is None and not newer.outputs and newer.kernels:
        return replace(
            older,
            kernels=whole,
            failure=newer.failure,
            device=newer.device or older.device,
            notes=tuple(dict.fromkeys((*older.notes, *newer.notes))),
            log=newer.log or older.log,
        )
    return replace(newer, kernels=whole)


def latest(results: Iterable[ReplayResult]) -> dict[str, GraphReplay]:
    """What is known of each graph; `results` are oldest first."""
    newest: dict[str, GraphReplay] = {}
    for result in results:
        for graph in result.graphs:
            newest[graph.name] = merged(newest.get(graph.name), graph)
    return newest


def kernel_history(results: Iterable[ReplayResult], graph: str, call: int) -> tuple[PastKernel, ...]:
    """Every measurement of one launch, newest first."""
    replays = [
        PastKernel(result.started, device_name(result.machine, replay.device), kernel)
        for result in results
        for replay in result.graphs
        if replay.name == graph
        for kernel in replay.kernels
        if kernel.call == call and kernel.method != "none"
    ]
    return tuple(sorted(replays, key=lambda past: -past.started))


def device_name(machine: Mapping[str, object], kind: str | None) -> str:
    """The device that a replay of kind `cpu` or `cuda` ran on, as the machine calls it."""
    return str(machine.get("cpu" if kind in ("cpu", None) else "device") or kind or "")


def peaks_used(results: Iterable[ReplayResult], kind: str | None) -> Peaks | None:
    """The peaks behind the newest roofline fractions of a device kind; `results` are oldest first."""
    known = None
    for result in results:
        peaks = result.machine.get("peaks")
        if isinstance(peaks, Mapping) and (kind or "cpu") in peaks:
            known = Peaks.from_json(peaks[kind or "cpu"]) or known
    return known
