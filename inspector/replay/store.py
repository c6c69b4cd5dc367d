"""Replay results as the JSON contract `inspector.replay/1`, and their files in RUN/replay."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from inspector.model.problem import InspectorError
from inspector.model.replay import (
    GraphReplay,
    KernelReplay,
    OutputCheck,
    ReplayResult,
    Timing,
    WorstElement,
)

SCHEMA = "inspector.replay/1"

_TIMINGS = ("eager", "compiled", "eager_wall", "compiled_wall", "cudagraph")


def to_json(result: ReplayResult) -> dict[str, Any]:
    """The contract's object. Milliseconds; each ``X_ms`` has its ``X_ms_iqr`` and ``X_rounds``."""
    return {
        "schema": SCHEMA,
        "machine": dict(result.machine),
        "graphs": [_graph_to_json(graph) for graph in result.graphs],
        "started": result.started,
        "options": dict(result.options),
        "notes": [],
    }


def _graph_to_json(graph: GraphReplay) -> dict[str, Any]:
    data: dict[str, Any] = {"name": graph.name, "device": graph.device, "eager_label": graph.eager_label}
    for name in _TIMINGS:
        timing: Timing | None = getattr(graph, name)
        data[f"{name}_ms"] = timing.median_ms if timing else None
        data[f"{name}_ms_iqr"] = timing.iqr_ms if timing else None
        data[f"{name}_rounds"] = timing.rounds if timing else 0
    data["speedup"] = graph.speedup
    data["kernels_ms"] = graph.kernels_ms
    data["host_gap_ms"] = graph.host_gap_ms
    data["outputs"] = [check_to_json(check) for check in graph.outputs]
    data["kernels"] = [kernel_to_json(kernel) for kernel in graph.kernels]
    data["some_kernels"] = graph.some_kernels
    data["edits"] = [kernel_to_json(kernel) for kernel in graph.edits]
    data["failure"] = graph.failure
    data["notes"] = list(graph.notes)
    data["log"] = graph.log
    return data


def check_to_json(check: OutputCheck) -> dict[str, Any]:
    return {**asdict(check), "shape": list(check.shape)}


def kernel_to_json(kernel: KernelReplay) -> dict[str, Any]:
    """One entry of ``kernels``: the fields of KernelReplay, times as ``ms``, ``ms_iqr``, ``ms_rounds`` and
    ``warm_ms`` and so on."""
    data = asdict(kernel)
    for key, prefix in (("time", ""), ("time_warm", "warm_")):
        timing: Timing | None = getattr(kernel, key)
        del data[key]
        data[f"{prefix}ms"] = timing.median_ms if timing else None
        data[f"{prefix}ms_iqr"] = timing.iqr_ms if timing else None
        data[f"{prefix}ms_rounds"] = timing.rounds if timing else 0
    data["outputs"] = [check_to_json(check) for check in kernel.outputs]
    data["worst"] = [{**asdict(worst), "index": list(worst.index)} for worst in kernel.worst]
    return data


def kernel_from_json(data: Mapping[str, Any]) -> KernelReplay:
    """The inverse of `kernel_to_json`; keys that this version does not know are left out."""
    known = {field.name for field in fields(KernelReplay)}
    values = {key: value for key, value in data.items() if key in known}
    for key, prefix in (("time", ""), ("time_warm", "warm_")):
        median = data.get(f"{prefix}ms")
        if median is not None:
            iqr = float(data.get(f"{prefix}ms_iqr") or 0.0)
            values[key] = Timing(float(median), iqr, int(data.get(f"{prefix}ms_rounds", 0)))
    values["outputs"] = tuple(check_from_json(check) for check in data.get("outputs", ()))
    values["worst"] = tuple(
        WorstElement(**{**worst, "index": tuple(worst["index"])}) for worst in data.get("worst", ())
    )
    return KernelReplay(**values)


def from_json(data: Mapping[str, Any]) -> ReplayResult:
    """The inverse of `to_json`. Raises InspectorError where `data` is not an `inspector.replay/1` object."""
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
        raise InspectorError(f"not a replay result: schema is {found!r}, expected {SCHEMA!r}")
    try:
        return ReplayResult(
            machine=dict(data.get("machine", {})),
            graphs=tuple(_graph_from_json(graph) for graph in data["graphs"]),
            started=float(data.get("started", 0.0)),
            options=dict(data.get("options", {})),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InspectorError(
            f"replay result is incomplete or malformed: {type(error).__name__} {error}"
        ) from error


def _graph_from_json(data: Mapping[str, Any]) -> GraphReplay:
    timings: dict[str, Any] = {}
    for name in _TIMINGS:
        median = data.get(f"{name}_ms")
        if median is not None:
            iqr = data.get(f"{name}_ms_iqr") or 0.0
            timings[name] = Timing(float(median), float(iqr), int(data.get(f"{name}_rounds", 0)))
    return GraphReplay(
        name=str(data["name"]),
        outputs=tuple(check_from_json(check) for check in data.get("outputs", ())),
        kernels=tuple(kernel_from_json(kernel) for kernel in data.get("kernels", ())),
        some_kernels=bool(data.get("some_kernels", False)),
        edits=tuple(kernel_from_json(kernel) for kernel in data.get("edits", ())),
        failure=data.get("failure"),
        eager_label=str(data.get("eager_label", "eager")),
        notes=tuple(data.get("notes", ())),
        device=data.get("device"),
        log=str(data.get("log", "")),
        **timings,
    )


def check_from_json(data: Mapping[str, Any]) -> OutputCheck:
    """One entry of ``outputs``; keys that this version does not know are left out."""
    known = {field.name for field in fields(OutputCheck)}
    values = {key: value for key, value in data.items() if key in known}
    values["shape"] = tuple(values.get("shape", ()))
    return OutputCheck(**values)


def save_result(result: ReplayResult, run_root: Path) -> Path:
    """Writes RUN/replay/<UTC time>.json and returns its path; older results stay.

    The file is written beside its final name and renamed, so that a reader never sees half of it.
    Raises InspectorError where the folder cannot be written.
    """
    folder = run_root / "replay"
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(result.started or time.time()))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{stamp}-{os.getpid()}.tmp"
        temporary.write_text(json.dumps(to_json(result), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        path, number = folder / f"{stamp}.json", 1
        while path.exists():
            number += 1
            path = folder / f"{stamp}-{number}.json"
        os.replace(temporary, path)
    except OSError as error:
        raise InspectorError(
            f"{folder}: cannot write the replay result: {error.strerror or error}"
        ) from error
    return path


def load_results(run_root: Path) -> tuple[ReplayResult, ...]:
    """Every readable result of RUN/replay, oldest first; a file that is none is skipped."""
    results = []
    for path in sorted((run_root / "replay").glob("*.json")):
        try:
            results.append(from_json(json.loads(path.read_text(encoding="utf-8"))))
        except (OSError, ValueError, InspectorError):
            continue
    return tuple(sorted(results, key=lambda result: result.started))
