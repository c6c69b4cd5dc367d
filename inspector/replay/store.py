"""Replay results as the JSON contract `inspector.replay/1`, and their files in RUN/replay.

The contract writes a time as three keys, ``X_ms``, ``X_ms_iqr`` and ``X_rounds``; all else is a field's name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from inspector.files import is_inside, read_plain, unused, write_whole
from inspector.model.codec import Malformed, from_data, to_data
from inspector.model.problem import InspectorError
from inspector.model.replay import GraphReplay, KernelReplay, ReplayResult, Timing
from inspector.readers.text import decode, guarded
from inspector.readers.text import from_json as json_of

SCHEMA = "inspector.replay/1"

_GRAPH_TIMES = {
    name: (f"{name}_ms", f"{name}_ms_iqr", f"{name}_rounds")
    for name in ("eager", "compiled", "eager_wall", "compiled_wall", "cudagraph")
}
_KERNEL_TIMES = {
    "time": ("ms", "ms_iqr", "ms_rounds"),
    "time_warm": ("warm_ms", "warm_ms_iqr", "warm_ms_rounds"),
    "time_float32": ("float32_ms", "float32_ms_iqr", "float32_ms_rounds"),
    "time_eager_strides": ("eager_strides_ms", "eager_strides_ms_iqr", "eager_strides_ms_rounds"),
}


def to_json(result: ReplayResult) -> dict[str, object]:
    """The contract's object."""
    graphs = [_graph_to_json(graph) for graph in result.graphs]
    return {"schema": SCHEMA, **to_data(result), "graphs": graphs, "notes": []}


def _graph_to_json(graph: GraphReplay) -> dict[str, object]:
    data = to_data(graph)
    # Programs are written to files of their own.
    del data["repros"]
    return {
        **_flat(data, {name: getattr(graph, name) for name in _GRAPH_TIMES}, _GRAPH_TIMES),
        "speedup": graph.speedup,
        "kernels_ms": graph.kernels_ms,
        "host_gap_ms": graph.host_gap_ms,
        "kernels": [kernel_to_json(kernel) for kernel in graph.kernels],
        "edits": [kernel_to_json(kernel) for kernel in graph.edits],
        "operators": [_flat(to_data(item), {"time": item.time}, _KERNEL_TIMES) for item in graph.operators],
    }


def kernel_to_json(kernel: KernelReplay) -> dict[str, object]:
    """One entry of ``kernels``."""
    times = {name: getattr(kernel, name) for name in _KERNEL_TIMES}
    return {**_flat(to_data(kernel), times, _KERNEL_TIMES), "looked": kernel.looked}


def _flat(
    data: dict[str, object], times: dict[str, Timing | None], keys: dict[str, tuple[str, str, str]]
) -> dict[str, object]:
    for name, timing in times.items():
        del data[name]
        values = (timing.median_ms, timing.iqr_ms, timing.rounds) if timing else (None, None, 0)
        data.update(zip(keys[name], values, strict=True))
    return data


def from_json(data: object) -> ReplayResult:
    """The inverse of `to_json`; keys that this version does not know are left out.

    Raises InspectorError where `data` is not an `inspector.replay/1` object.
    """
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        schema = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise InspectorError(f"not a replay result: schema is {schema!r}, expected {SCHEMA!r}")
    try:
        graphs = [
            {
                **_nested(graph, _GRAPH_TIMES),
                "kernels": [kernel_data(kernel) for kernel in graph.get("kernels", ())],
                "edits": [kernel_data(kernel) for kernel in graph.get("edits", ())],
                "operators": [kernel_data(item) for item in graph.get("operators", ())],
            }
            for graph in data["graphs"]
        ]
        return from_data(ReplayResult, {"machine": {}, **data, "graphs": graphs}, ignore_unknown=True)
    except (KeyError, TypeError, AttributeError, Malformed) as error:
        raise InspectorError(
            f"replay result is incomplete or malformed: {type(error).__name__} {error}"
        ) from error


def kernel_data(kernel: dict[str, object]) -> dict[str, object]:
    """An entry of ``kernels`` as `codec.from_data` takes a KernelReplay, with times in one object each."""
    return _nested(kernel, _KERNEL_TIMES)


def _nested(data: dict[str, object], keys: dict[str, tuple[str, str, str]]) -> dict[str, object]:
    times: dict[str, object] = {}
    for name, (median, spread, rounds) in keys.items():
        if data.get(median) is not None:
            values = (data[median], data.get(spread) or 0.0, data.get(rounds, 0))
            times[name] = dict(zip(("median_ms", "iqr_ms", "rounds"), values, strict=True))
    return {**data, **times}


def save_result(result: ReplayResult, run_root: Path) -> Path:
    """Writes RUN/replay/<UTC time>.json and returns its path; older results stay.

    Raises InspectorError where the folder cannot be written.
    """
    folder = run_root / "replay"
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(result.started or time.time()))
    try:
        if not is_inside(folder, run_root):
            raise OSError("it is a link that leads out of the run")
        folder.mkdir(parents=True, exist_ok=True)
        name = unused(stamp, lambda name: (folder / f"{name}.json").exists())
        path = folder / f"{name}.json"
        write_whole(path, json.dumps(to_json(result), indent=1, allow_nan=False) + "\n")
    except OSError as error:
        raise InspectorError(
            f"{folder}: cannot write the replay result: {error.strerror or error}"
        ) from error
    return path


def _load(path: Path) -> ReplayResult:
    return from_json(json_of(decode(read_plain(path), "")[0]))


def load_results(
    run_root: Path, tell: Callable[[str], object] = lambda _problem: None
) -> tuple[ReplayResult, ...]:
    """Every readable result of RUN/replay, oldest first; a file that is none is left out, and `tell` hears
    so."""
    results: list[ReplayResult] = []
    for path in sorted((run_root / "replay").glob("*.json")):
        result, problems = guarded(partial(_load, path), None, str(path), "it")
        results += [result] if result is not None else []
        for problem in problems:
            tell(f"{problem}: left out")
    return tuple(sorted(results, key=lambda result: result.started))
