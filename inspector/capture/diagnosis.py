"""Says after a run what it did not leave behind, and why as far as that can be told."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from inspector.analysis.nothing import cache_remedy, cached_graphs, nothing_compiled
from inspector.capture.environment import CaptureOptions
from inspector.capture.follow import graph_folders
from inspector.files import open_plain
from inspector.model.run import Manifest
from inspector.readers.locate import Located
from inspector.readers.run import Run
from inspector.readers.trace_events import cache_events

_MOST_BYTES = 16 << 20
_LOG_LINE = re.compile(r"^(?P<word>ready|applied|failed) \d+ (?P<text>.*)$", re.MULTILINE)


def diagnose(
    run: Path, manifest: Manifest, environment: Mapping[str, str], options: CaptureOptions
) -> tuple[str, ...]:
    """Notes on what is missing, the reason for an empty run first.

    `manifest` is that of the run as it ended, `environment` the child's whole one.
    """
    opened = Run(Located("capture", run, str(run)))
    folders = list(graph_folders(run))
    notes: list[str] = []
    if not folders:
        ended = replace(manifest, environment=environment)
        notes += filter(None, [nothing_compiled(replace(opened.facts(), manifest=ended), 0)])
    elif cached := cached_graphs(opened.count_events(cache_events)):
        came = "graph came" if cached == 1 else "graphs came"
        notes.append(f"{cached:,} more {came} from a cache and left no files: {cache_remedy(options.fresh)}")
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
        with open_plain(path) as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
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
