"""Puts replayed kernels on the roofline of the machine that replays."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import replace
from pathlib import Path

from inspector.analysis.roofline import with_fractions
from inspector.hardware.peaks import Device, Measurer, find_peaks
from inspector.model.peaks import Peaks
from inspector.model.replay import GraphReplay
from inspector.replay.environment import child_environment
from inspector.replay.protocol import TF32_NOTE, ReplayOptions


class Rooflines:
    """Puts the kernels of one replay on the roofline; peaks are looked up when a kernel first needs them."""

    def __init__(
        self,
        options: ReplayOptions,
        on_progress: Callable[[str], object] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> None:
        # Nothing is compiled there, so that no cache is written.
        environment = child_environment(Path(tempfile.gettempdir()), options)
        self._measurer = Measurer(options.python, environment, on_progress, should_stop)
        self._known: dict[str, tuple[Peaks | None, str]] = {}

    def apply(self, graph: GraphReplay, machine: MutableMapping[str, object]) -> GraphReplay:
        """The graph with each kernel's `roofline_fraction`; `machine` gets the peaks used, by device kind.

        A kernel without a time, bytes or operations stays as it is. Without peaks, a note says why.
        """
        if not any(kernel.time is not None and (kernel.bytes or kernel.flops) for kernel in graph.kernels):
            return graph
        kind = graph.device or "cpu"
        if kind not in self._known:
            self._known[kind] = find_peaks(_device(kind, machine), self._measurer)
        peaks, problem = self._known[kind]
        notes = (*graph.notes, problem) if problem else graph.notes
        if peaks is None:
            return replace(graph, notes=notes)
        known = {name: kept.to_json() for name, (kept, _) in self._known.items() if kept is not None}
        machine["peaks"] = known
        kernels, edits = (
            with_fractions(items, peaks, tf32=TF32_NOTE in graph.notes)
            for items in (graph.kernels, graph.edits)
        )
        return replace(graph, kernels=kernels, edits=edits, notes=notes)


def _device(kind: str, machine: Mapping[str, object]) -> Device:
    name = str(machine.get("cpu" if kind == "cpu" else "device", kind))
    threads = machine.get("threads")
    return Device(kind, name, str(machine.get("torch", "")), threads if isinstance(threads, int) else None)
