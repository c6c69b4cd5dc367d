"""The least that a part of a call could take: its bytes and its arithmetic at what the machine reaches, those
that the program asks for.

Peaks are measured where a replay did that, else a datasheet's, else only a table's guess. The lower end is a
bound; the upper end is what such a kernel is seen to reach, and for what is not generated code nothing is
known of that but that it takes no longer than it took.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from inspector.analysis.roofline import Bound, Roof, roof
from inspector.frozen import dataclass
from inspector.hardware.datasheets import datasheet_peaks
from inspector.model.account import ClaimHow, Interval
from inspector.model.peaks import Peaks
from inspector.model.two_sides import Block
from inspector.units import duration, rate, size

from .case import Case, GraphCase, Launch
from .estimate import CPU_LAUNCH_MS, FACTOR, GPU_KERNEL_MS, memory_ms, peak
from .launches import gathers, given_dtype

REACHED = 0.5
"""Of measured peaks: generated pointwise and reduction kernels reach 0.5 to 0.9 of them."""
_SORTS = "sort_with_index("
"""Of torch/_inductor/runtime/triton_helpers.py: a kernel that sorts compares each element with others many
times, which neither its bytes nor its arithmetic tell of."""
_CPU_MOST_BYTES_PER_S = 200e9
"""Caches of a few cores; no CPU that nobody measured is taken to be faster."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What the run's device reaches. `how` is `counted` by measured peaks, `bounded` by a datasheet's and
    `estimated` without either."""

    peaks: Peaks | None
    how: ClaimHow

    def roof(self, moved: int) -> Roof | None:
        """What moving so many bytes takes at least, at the rate of what all of them fit into; None of none,
        and where the machine's rates are not known."""
        return roof(moved, None, "", self.peaks) if self.peaks is not None else None

    @property
    def words(self) -> str:
        """Whose rate it is."""
        if self.peaks is None:
            return ""
        return (
            "this machine reaches" if self.peaks.source == "measured" else f"the {self.peaks.reference} gives"
        )


def machine_of(case: Case) -> Machine:
    """By the newest replay of the run, else as its capture measured it, or as it was measured here before
    where the run was captured here; else by the device's name."""
    kept = case.machine.get("peaks")
    kind = "cuda" if case.gpu else "cpu"
    peaks = Peaks.from_json(kept.get(kind)) if isinstance(kept, Mapping) else None
    if peaks is None:
        manifest = case.facts.manifest
        kept_there = manifest.peaks if manifest is not None else ()
        kept_here = case.host.peaks if case.host is not None else ()
        peaks = next((item for item in (*kept_there, *kept_here) if _is_of(item, case)), None)
    if peaks is None and case.gpu:
        peaks = next(filter(None, map(datasheet_peaks, case.facts.devices)), None)
    if peaks is None:
        return Machine(None, "estimated")
    return Machine(peaks, "counted" if peaks.source == "measured" else "bounded")


def _is_of(peaks: Peaks, case: Case) -> bool:
    """A GPU by its name; a CPU by the number of threads that the run had."""
    if case.gpu:
        return peaks.threads is None and peaks.device in case.facts.devices
    # Of a run that does not say so its own machine had as many as it measured with.
    threads = case.threads or (case.host.cpus if case.host is not None else peaks.threads)
    return peaks.threads is not None and peaks.threads == threads


def least_of(machine: Machine, graph: GraphCase, launch: Launch) -> tuple[Interval, Bound | None]:
    """Milliseconds of one run of a launch, and what sets them."""
    took = launch.ms
    peaks = machine.peaks
    limit = (
        roof(launch.useful_bytes, launch.flops, arithmetic(given_dtype(launch), peaks), peaks)
        if peaks is not None
        else None
    )
    if limit is not None:
        least, bound = limit.least_ms, limit.bound
    else:
        least, bound = 0.0 if graph.gpu else (launch.useful_bytes or 0) / _CPU_MOST_BYTES_PER_S * 1e3, None
    least = min(least, took)
    known = launch.role in ("generated", "copy") and launch.bytes and _SORTS not in launch.source
    if not known or any(map(gathers, launch.leaves)):
        return (least, took), bound
    start = start_ms(graph)
    asked = launch.useful * (launch.useful_bytes or 0) / launch.bytes if launch.bytes else 1.0
    usual = max(least / REACHED, FACTOR * (launch.in_vectors_ms or 0.0) * asked)
    # Of a machine that nobody measured the expectation is an estimate of an estimate.
    usual = usual * (FACTOR if peaks is None else 1.0) + start
    return (least, min(usual, took)), bound


def start_ms(graph: GraphCase) -> float:
    """What a launch of no work takes, in the time of its kernel."""
    return GPU_KERNEL_MS if graph.gpu else CPU_LAUNCH_MS


def arithmetic(dtype: str | None, peaks: Peaks) -> str:
    """The fastest kind that operations in a dtype may be done in: if a library used TF32 is not known."""
    kind = dtype or "float32"
    return "tf32" if kind == "float32" and "tf32" in peaks.flops_per_s else kind


def bytes_ms(machine: Machine, graph: GraphCase, launch: Launch, count: int) -> float:
    """The most that generated code takes for moving `count` of a launch's bytes where these bound it, at the
    rate of what all of them fit into."""
    moved = launch.bytes or 0
    limit = machine.roof(moved)
    if limit is not None:
        return count / limit.rate * 1e3 / REACHED
    whole = memory_ms(moved, peak((), graph.gpu, None), graph.gpu)
    return whole * count / moved if moved else 0.0


def hidden_bytes(machine: Machine, graph: GraphCase, launch: Launch) -> bool:
    """Whether its arithmetic may hide what its bytes take, by what is expected of that."""
    return (launch.expected_ms or 0.0) > FACTOR * bytes_ms(machine, graph, launch, launch.bytes or 0)


def bounded_by_bytes(machine: Machine, graph: GraphCase, launch: Launch) -> bool:
    """Whether a generated launch may take as long as it does for its bytes: fewer of them would make nothing
    shorter where it takes longer, or where by a table its arithmetic surely does (the roofline)."""
    moving = bytes_ms(machine, graph, launch, launch.bytes or 0)
    start = start_ms(graph)
    if launch.measured and launch.ms > moving * (FACTOR if machine.peaks is None else 1.0) + start:
        return False
    if launch.measured and machine.peaks is not None:
        return True
    table = memory_ms(launch.bytes or 0, peak((), graph.gpu, None), graph.gpu)
    return launch.expected_ms is None or launch.expected_ms <= FACTOR * table + start


def achieved(machine: Machine, moved: int, ms: float) -> str:
    """`moves 3.40 GB in 0.95 ms: 3.58 of the 4.30 TB/s that this machine reaches`; without the machine's rate
    only its own; empty where nothing is moved."""
    if not moved or ms <= 0:
        return ""
    text, own = f"moves {size(moved)} in {duration(ms)}", moved / ms * 1e3
    limit = machine.roof(moved)
    # What stays in caches may come faster than the level that all of it together fits into.
    if limit is None or own > limit.rate:
        return f"{text}: {rate(own, 'B/s')}"
    return f"{text}: {rate(own, 'B/s')} of the {rate(limit.rate, 'B/s')} that {machine.words}"


def least_of_blocks(case: Case, machine: Machine, blocks: Sequence[Block]) -> dict[int, Interval]:
    """Per steady call, of blocks by their place: those whose launches are all known. What eager reached is
    possible too."""
    launches = {(graph.name, launch.call.index): (graph, launch) for graph, launch in case.launches()}
    shared = Counter(place for block in blocks for place in block.launches)
    least: dict[int, Interval] = {}
    for number, block in enumerate(blocks):
        if not block.launches or any(place not in launches for place in block.launches):
            continue
        low = high = 0.0
        for place in block.launches:
            graph, launch = launches[place]
            (first, last), _ = least_of(machine, graph, launch)
            low += first * graph.runs / shared[place]
            high += last * graph.runs / shared[place]
        took = block.compiled_ms or 0.0
        high = min(high, took, block.eager_ms or took)
        # Of what only compiled code runs eager needed nothing.
        least[number] = (min(low, high, took if block.eager_ms is None else block.eager_ms), high)
    return least
