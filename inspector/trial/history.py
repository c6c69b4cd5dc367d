"""What a command was captured as before: its other runs beside this one, trials in it, replays of it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from inspector.capture.bootstrap.sitecustomize import OVERRIDE
from inspector.explain.times import measured_times, recorded_calls, steady_call_ms
from inspector.model.history import PastRun
from inspector.model.replay import ReplayResult
from inspector.model.run import MANIFEST_NAME
from inspector.model.trial import FOLDER, TIMED
from inspector.readers.locate import Located
from inspector.readers.run import Run
from inspector.readers.variants import read_records

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST = 12
"""Older captures that are looked at: each takes reading its record."""
_MOST_FOLDERS = 200


def past_runs(run: Run, results: Sequence[ReplayResult] = ()) -> tuple[PastRun, ...]:
    """Other captures of the run's command in the folder beside it, its trials, and its replays; newest first.
    Reads records, and executes nothing."""
    items = [*_trials(run), *_captures(run), *_replays(results)]
    return tuple(sorted(items, key=lambda item: -item.started))


def this_run(run: Run) -> PastRun:
    """How a run was compiled and what a steady call of it took."""
    times, manifest = measured_times(run), run.manifest
    return PastRun(
        "capture",
        manifest.started if manifest is not None else 0.0,
        how_compiled(run),
        times.compiled_ms,
        times.eager_ms,
        times.outcome,
        str(run.root),
    )


def how_compiled(run: Run) -> str:
    """`mode="reduce-overhead", cpp.simdlen=1`: the modes of its ``torch.compile`` calls, and what the capture
    set; empty for neither."""
    manifest = run.manifest
    modes = {item.mode for calls in recorded_calls(run) for item in calls.callables if item.mode}
    if manifest is None:
        return _modes(modes)
    modes |= {mode} if isinstance(mode := manifest.options.get("mode"), str) else set()
    override = _override(manifest.environment)
    modes |= {mode} if isinstance(mode := override.get("mode"), str) else set()
    config = manifest.options.get("config")
    parts = [_modes(modes)]
    parts += [f"dynamic={override['dynamic']}"] if isinstance(override.get("dynamic"), bool) else []
    parts += [f"{_key(key)}={value}" for key, value in (config.items() if isinstance(config, dict) else ())]
    return ", ".join(part for part in parts if part)


def _modes(modes: set[str]) -> str:
    return ", ".join(f'mode="{mode}"' for mode in sorted(modes))


def _key(name: str) -> str:
    return name.removeprefix("torch._inductor.config.").removeprefix("torch._")


def _override(environment: Mapping[str, str]) -> dict[str, object]:
    try:
        data = json.loads(environment.get(OVERRIDE, "{}"))
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _captures(run: Run) -> Iterator[PastRun]:
    """Of the same command in the same folder."""
    manifest = run.manifest
    if manifest is None or not manifest.command or run.located.unpacked:
        return
    root = run.root.absolute()
    beside = sorted(_folders(root.parent), key=_modified, reverse=True)
    same = 0
    for folder in beside:
        if folder == root or same == MOST or not (folder / MANIFEST_NAME).is_file():
            continue
        other = Run(Located("capture", folder, str(folder)))
        theirs = other.manifest
        if theirs is not None and theirs.command == manifest.command:
            same += 1
            yield this_run(other)


def _trials(run: Run) -> Iterator[PastRun]:
    eager = measured_times(run).eager_ms
    for folder in (path for number in _folders(run.root / FOLDER) for path in _folders(number)):
        if not (folder / MANIFEST_NAME).is_file():
            continue
        trial = Run(Located("capture", folder, str(folder)))
        manifest = trial.manifest
        if manifest is None:
            continue
        rounds = [
            ms
            for part in _folders(folder / TIMED)
            if (ms := steady_call_ms([r.calls for r in read_records(part, str) if r.calls is not None]))
        ]
        ms = statistics.median(rounds) if rounds else measured_times(trial).compiled_ms
        label = how_compiled(trial) or folder.name
        yield PastRun("trial", manifest.started, label, ms, eager, path=str(folder))


def _replays(results: Sequence[ReplayResult]) -> Iterator[PastRun]:
    for result in results:
        timed = [(graph.eager, graph.compiled) for graph in result.graphs]
        both = [(eager.median_ms, ours.median_ms) for eager, ours in timed if eager and ours]
        if both:
            eager_ms, compiled_ms = (sum(times) for times in zip(*both, strict=True))
            yield PastRun("replay", result.started, "", compiled_ms, eager_ms)


def _folders(parent: Path) -> list[Path]:
    try:
        folders = [path for path in parent.iterdir() if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []
    return sorted(folders)[:_MOST_FOLDERS]


def _modified(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0
