"""Says after a run what it did not leave behind, and why as far as that can be told."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from inspector.analysis.nothing import SWITCHES, Evidence, cache_remedy, why_nothing
from inspector.capture.environment import CaptureOptions
from inspector.capture.follow import graph_folders
from inspector.readers.variants import read_records, was_watched

_EVENT = re.compile(rb'"(?:name": "(?P<artifact>\w+)|(?P<key>dynamo_start|dynamo_output_graph)")')
_LOG_LINE = re.compile(r"^(?P<word>ready|applied|failed) \d+ (?P<text>.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Traced:
    """What the structured trace of a run counts: frames begun, FX graphs made, graphs taken from a cache."""

    frames: int = 0
    graphs: int = 0
    cached: int = 0


def read_traces(run: Path) -> Traced:
    """Count the events in RUN/trace. Payload lines, which begin with a tab, are passed over."""
    counts = dict.fromkeys(
        ("dynamo_start", "dynamo_output_graph", "fx_graph_cache_hit", "aotautograd_cache_hit"), 0
    )
    for path in sorted((run / "trace").glob("*.log")):
        try:
            with path.open("rb") as file:
                for line in file:
                    match = None if line.startswith(b"\t") else _EVENT.search(line)
                    if match is not None:
                        name = (match["artifact"] or match["key"]).decode()
                        if name in counts:
                            counts[name] += 1
        except OSError:
            continue
    # A hit of AOT autograd's cache is followed by one of Inductor's for each of its graphs.
    cached = max(counts["fx_graph_cache_hit"], counts["aotautograd_cache_hit"])
    return Traced(counts["dynamo_start"], counts["dynamo_output_graph"], cached)


def diagnose(
    run: Path,
    environment: Mapping[str, str],
    options: CaptureOptions,
    *,
    exit_code: int,
    interrupted: bool,
    devices: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """Notes on what is missing, the reason for an empty run first. `environment` is the child's whole one."""
    traced = read_traces(run)
    folders = list(graph_folders(run))
    notes: list[str] = []
    if not folders:
        records = read_records(run, lambda path: path.name)
        notes.append(
            why_nothing(
                Evidence(
                    frames=traced.frames,
                    made=traced.graphs,
                    cached=traced.cached,
                    switch=next((name for name in SWITCHES if environment.get(name) == "1"), None),
                    exit_code=exit_code,
                    interrupted=interrupted,
                    fresh=options.fresh,
                    watched=was_watched(run),
                    calls=tuple(record.calls for record in records if record.calls is not None),
                    devices=devices,
                )
            )
        )
    elif traced.cached:
        came = "graph came" if traced.cached == 1 else "graphs came"
        notes.append(
            f"{traced.cached:,} more {came} from a cache and left no files: {cache_remedy(options.fresh)}"
        )
    if options.injected:
        notes.extend(read_bootstrap_log(run / "logs" / "bootstrap.log"))
    if options.record and folders:
        notes.extend(_recorder_notes(run))
        if options.save_inputs is not None and not any((run / "inputs").glob("*/*.pt")):
            notes.append("no inputs were saved: no compiled graph was called, or see logs/recorder.log")
    return tuple(notes)


def _recorder_notes(run: Path) -> Iterator[str]:
    """What there is no record of although graphs were compiled."""
    faults = _read(run / "logs" / "recorder.log").count(" fault in ")
    if faults:
        yield f"the record may be incomplete: the recorder failed {faults:,} times (logs/recorder.log)"
    if not any((run / "record").glob("*.jsonl")):
        why = "see logs/bootstrap.log and logs/recorder.log"
        if "ready " not in _read(run / "logs" / "bootstrap.log"):
            why = "the interpreter ignores PYTHONPATH (python -I, -E or -S?)"
        yield f"no record of fusion decisions: {why}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def read_bootstrap_log(path: Path) -> tuple[str, ...]:
    """What of the asked-for mode and config values did not take effect."""
    text = _read(path)
    lines = [(match["word"], match["text"]) for match in _LOG_LINE.finditer(text)]
    words = {word for word, _ in lines}
    if "ready" not in words:
        return (
            "--mode and --config had no effect: the interpreter ignores PYTHONPATH (python -I, -E or -S?)",
        )
    failed = dict.fromkeys(text for word, text in lines if word == "failed")
    notes = [f"could not be set: {text}" for text in failed]
    if not failed and "applied" not in words:
        notes.append("--mode and --config had no effect: the command never imported what they set")
    return tuple(notes)
