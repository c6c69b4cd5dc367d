"""The runs of one command: the captured one, and those of RUN/baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from inspector.model.calls import BASELINE_VARIANTS, VariantRun
from inspector.model.load import GpuLoad
from inspector.model.problem import Problem
from inspector.model.record import ProcessRecord
from inspector.model.run import Manifest

from .anew import made_anew
from .artifacts import RECORDS, matching
from .text import number, read_text


def read_records(
    run: Path, label: Callable[[Path], str], as_recorded: bool = False
) -> tuple[ProcessRecord, ...]:
    """Every process's record of a run; problems with reading are the records' own. What the program compiled
    anew for each part of its work is one callable, but for where it is wanted `as_recorded`."""
    read = [RECORDS.read_path(path, label(path)) for path in matching(RECORDS.patterns, "capture", run)]
    return tuple(
        replace(
            record,
            problems=problems,
            calls=record.calls if as_recorded or record.calls is None else made_anew(record.calls),
        )
        for record, problems in read
        if record is not None
    )


def read_variants(
    root: Path, label: Callable[[Path], str], manifest: Manifest | None, captured: Iterable[ProcessRecord]
) -> tuple[VariantRun, ...]:
    """The captured run first, then those of the baseline that there are.

    A process that left no line of calls is not among a variant's processes.
    """
    code = None if manifest is None else manifest.exit_code
    seconds = 0.0 if manifest is None else manifest.seconds
    calls = tuple(record.calls for record in captured if record.calls is not None)
    # What is wrong with the captured run's records is among the run's own problems.
    gpus = read_gpus(None if manifest is None else manifest.gpus)
    variants = [VariantRun("captured", code, seconds, calls, gpus=gpus)]
    for variant in BASELINE_VARIANTS:
        folder = root / "baseline" / variant
        entry: Any = {} if manifest is None else manifest.baseline.get(variant)
        if not isinstance(entry, dict) or not (entry or folder.is_dir()):
            continue
        records = read_records(folder, label)
        profiled = read_records(root / "profile" / variant, label)
        problems = [problem for record in (*records, *profiled) for problem in record.problems]
        for record in (*records, *profiled) if entry.get("exit_code") == 0 else ():
            if record.calls is None:
                problems.append(
                    Problem(record.path, None, "no calls in it: cut off, or nothing compiled was called")
                )
        variants.append(
            VariantRun(
                variant,
                ended if isinstance(ended := entry.get("exit_code"), int) else None,
                number(entry.get("seconds")) or 0.0,
                tuple(record.calls for record in records if record.calls is not None),
                tuple(problems),
                read_gpus(entry.get("gpus")),
                tuple(record.calls for record in profiled if record.calls is not None),
            )
        )
    return tuple(variants)


def read_gpus(data: object) -> tuple[tuple[str, GpuLoad], ...]:
    """What a manifest says of the GPUs that a command used."""
    entries = data.items() if isinstance(data, Mapping) else ()
    return tuple(
        (str(name), GpuLoad(number(entry.get("before")), number(entry.get("held_down")) or 0.0))
        for name, entry in entries
        if isinstance(entry, dict)
    )


def was_watched(root: Path) -> bool:
    """Whether the recorder was in a process that imported torch, as capture/bootstrap notes it."""
    path = root / "logs" / "bootstrap.log"
    if not path.is_file():
        return False
    text, _ = read_text(path, str(path))
    return any(line.startswith("watching ") for line in text.splitlines())
