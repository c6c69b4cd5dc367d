"""Reports of Nsight Compute: its ``.ncu-rep`` by NVIDIA's own package, and the CSV of its raw page.

``ncu --page raw --csv`` writes a row of names, a row of units and a row for each profiled launch; metrics are
named in https://docs.nvidia.com/nsight-compute/ProfilingGuide (Metrics Reference). What was read is kept as
JSON in the run (``RUN/ncu``), so that it opens where NVIDIA's package is not.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from inspector.files import write_whole
from inspector.model.codec import from_data, to_data
from inspector.model.ncu import NcuKernel
from inspector.model.problem import InspectorError, Problem, Read

from .run_files import RunFiles
from .text import from_json, guarded, read_text

FOLDER = "ncu"
_DURATION = "gpu__time_duration.sum"
_MS = {
    "ns": 1e-6, "nsecond": 1e-6, "us": 1e-3, "usecond": 1e-3, "ms": 1.0, "msecond": 1.0, "s": 1e3,
    "second": 1e3,
}  # fmt: skip
_REGISTERS = "launch__registers_per_thread"
_OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
_THROUGHPUT = {
    "DRAM": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "memory": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "multiprocessors": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
}
_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio$")
_WAITED = "smsp__average_warp_latency_per_inst_issued.ratio"
_SAMPLES = "smsp__pcsamp_warps_issue_stalled_"
_EXECUTED = "inst_executed"
_NUMBER = re.compile(r"\d+")
_MOST = 1000
"""Launches that are read of one report."""


def read_ncu(path: Path) -> Read[tuple[NcuKernel, ...]]:
    """The launches in a report that the user named. InspectorError where there is none, or nothing to read it
    with."""
    if not path.is_file():
        raise InspectorError(f"{path}: no such file")
    if path.suffix in (".ncu-rep", ".ncu-repz"):
        return _report(path), ()
    text, problems = read_text(path, str(path))
    kernels, more = parse_csv(text, str(path))
    if not kernels:
        raise InspectorError(
            f"{path}: no launches here; it takes an .ncu-rep, or: ncu --import X.ncu-rep --page raw --csv"
        )
    return kernels, (*problems, *more)


def parse_csv(text: str, path: str) -> Read[tuple[NcuKernel, ...]]:
    """Of the raw page; lines before its header, which ``ncu`` prints while it runs, are left out."""
    lines = text.splitlines()
    first = next((row for row, line in enumerate(lines) if line.startswith('"ID","Process ID"')), None)
    if first is None:
        return (), (Problem(path, None, "no CSV of ncu's raw page"),)
    rows = csv.reader(io.StringIO("\n".join(lines[first:])))
    names, units = next(rows), next(rows, [])
    kernels: list[NcuKernel] = []
    problems: list[Problem] = []
    for number, row in enumerate(rows, first + 3):
        if len(row) != len(names):
            problems.append(Problem(path, number, "cut short: not as many values as there are names"))
        elif len(kernels) < _MOST:
            values = dict(zip(names, row, strict=True))
            unit = dict(zip(names, units, strict=False))
            grid = tuple(int(each) for each in _NUMBER.findall(values.get("Grid Size", "")))
            kernels.append(
                _kernel(values.get("Kernel Name", ""), grid, values.get, unit.get(_DURATION, ""), names, path)
            )
    return tuple(kernels), tuple(problems)


def _kernel(
    name: str,
    grid: tuple[int, ...],
    value: Callable[[str], Any],
    unit: str,
    names: Iterable[str],
    source: str,
) -> NcuKernel:
    """`value` gives a metric, as text or a number; None where it was not collected."""

    def number(metric: str) -> float | None:
        raw = value(metric)
        try:
            return float(str(raw).replace(",", "")) if raw is not None else None
        except ValueError:
            return None

    duration, registers, conflicts = number(_DURATION), number(_REGISTERS), number(_CONFLICTS)
    occupancy, waited = number(_OCCUPANCY), number(_WAITED)
    matches = (match for each in names if (match := _STALL.match(each)) is not None)
    stalls = {match[1].replace("_", " "): number(match[0]) or 0.0 for match in matches}
    whole = waited or sum(stalls.values())
    return NcuKernel(
        # kernel(float*, int): the function's own name
        name.partition("(")[0] if name.endswith(")") else name,
        grid,
        duration * _MS[unit] if duration is not None and unit in _MS else None,
        int(registers) if registers is not None else None,
        occupancy / 100 if occupancy is not None else None,
        {what: share for what, metric in _THROUGHPUT.items() if (share := number(metric)) is not None},
        {what: part / whole for what, part in stalls.items() if part} if whole else {},
        int(conflicts) if conflicts is not None else None,
        source=source,
    )


def _report(path: Path) -> tuple[NcuKernel, ...]:
    try:
        import ncu_report  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise InspectorError(
            f"{path}: reading it takes NVIDIA's package: pip install ncu-report; or export it: ncu --import "
            f"{path.name} --page raw --csv"
        ) from None
    try:
        context = ncu_report.load_report(str(path))
        actions = (
            part.action_by_idx(number)
            for part in map(context.range_by_idx, range(context.num_ranges()))
            for number in range(part.num_actions())
        )
        return tuple(_action(action, str(path)) for _, action in zip(range(_MOST), actions, strict=False))
    except Exception as error:
        raise InspectorError(f"{path}: ncu-report cannot read it: {error}") from error


def _action(action: Any, source: str) -> NcuKernel:  # noqa: ANN401
    def value(metric: str) -> Any:  # noqa: ANN401
        own = action.metric_by_name(metric)
        return own.value() if own is not None else None

    names = list(action.metric_names())
    grid = tuple(int(value(f"launch__grid_dim_{axis}") or 1) for axis in "xyz")
    duration = action.metric_by_name(_DURATION)
    unit = duration.unit() if duration is not None else ""
    kernel = _kernel(action.name(), grid, value, unit, names, source)
    return replace(kernel, samples=tuple(_samples(action, names)))


def _samples(action: Any, names: Iterable[str]) -> Iterator[tuple[int, int]]:  # noqa: ANN401
    """Warps that stood at each instruction, all reasons together, by its place in the kernel. Where that
    begins says the count of what was executed: the first instruction always is, and seldom sampled."""
    taken: dict[int, int] = {}
    for name in names:
        if name.startswith(_SAMPLES) and not name.endswith("_not_issued"):
            for place, count in _by_place(action, name):
                taken[place] = taken.get(place, 0) + count
    executed = (place for place, _ in _by_place(action, _EXECUTED))
    begin = min((*executed, *taken), default=0)
    yield from ((place - begin, count) for place, count in sorted(taken.items()))


def _by_place(action: Any, name: str) -> Iterator[tuple[int, int]]:  # noqa: ANN401
    metric = action.metric_by_name(name)
    if metric is not None and metric.has_correlation_ids():
        places = metric.correlation_ids()
        for number in range(metric.num_instances()):
            yield places.as_uint64(number), metric.as_uint64(number)


# -- kept with the run


def save_ncu(run: RunFiles, path: Path, kernels: Iterable[NcuKernel]) -> bool:
    """Beside the run's other measurements; whether it is a capture of one's own that can be written."""
    if run.kind != "capture" or run.located.unpacked or not os.access(run.root, os.W_OK):
        return False
    target = run.root / FOLDER / f"{path.stem}.json"
    try:
        target.parent.mkdir(exist_ok=True)
        write_whole(target, json.dumps([to_data(kernel) for kernel in kernels], indent=1) + "\n")
    except OSError as error:
        raise InspectorError(f"{target}: cannot be written: {error.strerror or error}") from error
    return True


def load_ncu(run: RunFiles) -> Read[tuple[NcuKernel, ...]]:
    """What earlier reports left in the run."""
    kernels: list[NcuKernel] = []
    problems: list[Problem] = []
    for path in sorted((run.root / FOLDER).glob("*.json")) if run.root.is_dir() else ():
        label = run.label(path)
        own, failed = guarded(partial(_kept, path, label), (), label, "it")
        kernels += own
        problems += failed
    return tuple(kernels), tuple(problems)


def _kept(path: Path, label: str) -> tuple[NcuKernel, ...]:
    data = from_json(read_text(path, label)[0])
    if not isinstance(data, list):
        raise ValueError("no list of kernels")
    return tuple(from_data(NcuKernel, each, ignore_unknown=True) for each in data)
