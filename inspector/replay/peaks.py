"""The peaks of the machine that replays: measured once in a child, kept, applied to each graph's kernels."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from inspector.analysis.datasheets import datasheet_peaks
from inspector.analysis.roofline import with_fractions
from inspector.model.peaks import Peaks
from inspector.model.replay import GraphReplay
from inspector.replay.plan import ReplayOptions, child_environment
from inspector.replay.worker_events import TF32_NOTE

Progress = Callable[[str], None]

_LIMIT_S = 120.0
_POLL_S = 0.1
_BUSY_CPUS = 0.25


class Rooflines:
    """Puts the kernels of one replay on the roofline; peaks are looked up when a kernel first needs them."""

    def __init__(
        self,
        options: ReplayOptions,
        on_progress: Progress | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> None:
        self._options = options
        self._on_progress = on_progress
        self._should_stop = should_stop
        self._found: dict[str, tuple[Peaks | None, str]] = {}

    def apply(self, graph: GraphReplay, machine: dict[str, Any]) -> GraphReplay:
        """The graph with each kernel's `roofline_fraction`; `machine` gets the peaks used, by device kind.

        A kernel without a time, bytes or operations stays as it is. Without peaks, a note says why.
        """
        if not any(kernel.time is not None and (kernel.bytes or kernel.flops) for kernel in graph.kernels):
            return graph
        kind = graph.device or "cpu"
        if kind not in self._found:
            self._found[kind] = self._look_up(kind, machine)
        peaks, problem = self._found[kind]
        if peaks is None:
            return replace(graph, notes=(*graph.notes, problem))
        machine.setdefault("peaks", {})[kind] = peaks.to_json()
        kernels, edits = (
            with_fractions(items, peaks, tf32=TF32_NOTE in graph.notes)
            for items in (graph.kernels, graph.edits)
        )
        notes = graph.notes
        if problem:
            notes = (*notes, problem)
        return replace(graph, kernels=kernels, edits=edits, notes=notes)

    def _look_up(self, kind: str, machine: Mapping[str, Any]) -> tuple[Peaks | None, str]:
        """Kept, else measured, else the datasheet's; and what there is to know about them."""
        name = str(machine.get("cpu" if kind == "cpu" else "device", kind))
        path = kept_path(
            name, str(machine.get("torch", "")), machine.get("threads") if kind == "cpu" else None
        )
        peaks = load_peaks(path)
        if peaks is None:
            if self._on_progress is not None:
                self._on_progress("measuring what this machine can do (once)")
            try:
                peaks = measure_peaks(kind, name, self._options, self._should_stop)
            except PeaksUnknown as error:
                sheet = datasheet_peaks(name) if kind != "cpu" else None
                if sheet is None:
                    return None, f"no roofline: {error}"
                return sheet, f"roofline from the {sheet.reference}, not measured: {error}"
            keep_peaks(peaks, path)
        if peaks.busy_cpus > _BUSY_CPUS:
            busy = f"other programs kept {peaks.busy_cpus:.1f} CPUs busy while they were measured"
            again = f"remove inspector/peaks/{path.name} from the cache folder to measure again"
            return peaks, f"the roofline's peaks are too low: {busy}; {again}"
        return peaks, ""


class PeaksUnknown(Exception):
    """The peaks cannot be measured; the message says why."""


def measure_peaks(
    kind: str,
    name: str,
    options: ReplayOptions,
    should_stop: Callable[[], bool] | None = None,
) -> Peaks:
    """Measures `cpu` or `cuda` in a child with the interpreter of `options`. Raises PeaksUnknown."""
    with tempfile.TemporaryDirectory(prefix="inspector-peaks-") as folder:
        out = Path(folder) / "peaks.json"
        log = Path(folder) / "child.log"
        try:
            with open(log, "wb") as output:
                process = subprocess.Popen(
                    _command(options, kind, out),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=child_environment(Path(folder), options),
                    cwd=folder,
                    start_new_session=True,
                )
        except OSError as error:
            raise PeaksUnknown(f"cannot start {options.python or 'python'}: {error.strerror}") from None
        try:
            _wait(process, should_stop)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        try:
            peaks = Peaks.from_json(json.loads(out.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            peaks = None
        if peaks is None:
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise PeaksUnknown(f"its peaks cannot be measured: {lines[-1] if lines else 'the child crashed'}")
    return replace(peaks, device=name)


def _command(options: ReplayOptions, kind: str, out: Path) -> list[str]:
    """``PYTHON -c RUN worker_peaks.py cpu|cuda FILE``: its folder then does not answer to top-level names."""
    worker = Path(__file__).with_name("worker_peaks.py")
    run = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
    return [options.python or sys.executable, "-c", run, str(worker), kind, str(out)]


def _wait(process: subprocess.Popen[bytes], should_stop: Callable[[], bool] | None) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while process.poll() is None:
        if should_stop is not None and should_stop():
            raise PeaksUnknown("stopped while its peaks were measured")
        if time.monotonic() > deadline:
            raise PeaksUnknown(f"measuring its peaks took longer than {_LIMIT_S:g} s")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_S)


def kept_path(device: str, torch_version: str, threads: object) -> Path:
    """Where a device's peaks are kept: below XDG_CACHE_HOME, one file for each torch and thread count."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    parts = [device, f"torch {torch_version}", *([f"{threads} threads"] if threads else [])]
    name = re.sub(r"[^A-Za-z0-9.+]+", "-", " ".join(parts)).strip("-")
    return Path(base).expanduser() / "inspector" / "peaks" / f"{name}.json"


def load_peaks(path: Path) -> Peaks | None:
    """None where nothing readable is kept."""
    try:
        return Peaks.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def keep_peaks(peaks: Peaks, path: Path) -> None:
    """Written beside and renamed. What cannot be kept is measured again next time."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(peaks.to_json(), indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, path)
