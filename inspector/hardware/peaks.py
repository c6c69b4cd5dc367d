"""The peaks of this machine: measured once in a child and kept; those of the datasheet where nobody can."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from inspector.files import cache_folder, read_plain, write_whole
from inspector.frozen import dataclass
from inspector.hardware.datasheets import datasheet_peaks
from inspector.model.peaks import Costs, Peaks
from inspector.process import PIPE, Child, Limits, python_child

_LIMIT_S = 120.0
_THREADS = "TORCHINDUCTOR_COMPILE_THREADS"
BUSY_CPUS = 0.25
"""Kept busy by others while peaks are measured: more of them, and the peaks are too low."""


class PeaksUnknown(Exception):
    """The peaks cannot be measured; the message says why."""


@dataclass(frozen=True, slots=True)
class Device:
    """What is measured: its `kind` is ``cpu`` or ``cuda``. Another version of torch or, on a CPU, another
    number of threads reaches other peaks."""

    kind: str
    name: str
    torch: str = ""
    threads: int | None = None

    @property
    def path(self) -> Path:
        """Where its peaks are kept."""
        threads = [f"{self.threads} threads"] if self.threads and self.kind == "cpu" else []
        parts = [self.name, f"torch {self.torch}", *threads]
        name = re.sub(r"[^A-Za-z0-9.+]+", "-", " ".join(parts)).strip("-")
        return kept_folder() / f"{name}.json"


@dataclass(frozen=True, slots=True)
class Measurer:
    """Who measures: an interpreter with torch (None for this one) and its environment. `on_progress` hears of
    a measurement that begins, `should_stop` is asked while it lasts."""

    python: str | None
    environment: Mapping[str, str]
    on_progress: Callable[[str], object] | None = None
    should_stop: Callable[[], bool] | None = None


def find_peaks(device: Device, measurer: Measurer) -> tuple[Peaks | None, str]:
    """Kept, else measured, else the datasheet's; and what there is to know about them, empty for nothing.
    Those that others' work held down are kept for nobody."""
    kept = load_peaks(device.path)
    if kept is not None and kept.busy_cpus > BUSY_CPUS:
        kept = None
    if kept is not None and _complete(kept.costs, device):
        return kept, ""
    if measurer.on_progress is not None:
        measurer.on_progress("measuring what this machine can do (once)")
    try:
        peaks = measure_peaks(device, measurer)
    except PeaksUnknown as error:
        if kept is not None:
            return kept, ""
        sheet = datasheet_peaks(device.name) if device.kind != "cpu" else None
        if sheet is None:
            return None, f"no roofline: {error}"
        return sheet, f"roofline from the {sheet.reference}, not measured: {error}"
    if peaks.busy_cpus > BUSY_CPUS:
        busy = f"other programs kept {peaks.busy_cpus:.1f} CPUs busy while they were measured"
        return kept or peaks, f"the roofline's peaks are too low: {busy}; they are measured again next time"
    keep_peaks(peaks, device.path)
    return peaks, ""


def _complete(costs: Costs | None, device: Device) -> bool:
    """Older versions measured no costs, or not all of them. Without a compiler none divides."""
    if costs is None:
        return False
    if device.kind == "cpu":
        return costs.subnormal_times is not None
    return costs.graph_s is None or costs.division_s is not None


def measure_peaks(device: Device, measurer: Measurer) -> Peaks:
    """The device's peaks, measured in a child. Raises PeaksUnknown."""
    chunks: list[bytes] = []
    command = python_child(measurer.python, "inspector.hardware.measure", device.kind, PIPE)
    with tempfile.TemporaryDirectory(prefix="inspector-peaks-") as folder:
        # What it compiles is nobody else's.
        own = {"TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": folder, _THREADS: "1"}
        environment = {**measurer.environment, **own}
        try:
            child = Child(command, env=environment, cwd=Path(folder), stdin="held", pipe=chunks.append)
        except OSError as error:
            raise PeaksUnknown(f"cannot start {command[0]}: {error.strerror}") from None
        ending = child.follow(Limits(_LIMIT_S), measurer.should_stop)
    if ending.stopped:
        raise PeaksUnknown("stopped while its peaks were measured")
    if ending.timed_out:
        raise PeaksUnknown(f"measuring its peaks took longer than {_LIMIT_S:g} s")
    try:
        peaks = Peaks.from_json(json.loads(b"".join(chunks)))
    except ValueError:
        peaks = None
    if peaks is None:
        raise PeaksUnknown(f"its peaks cannot be measured: {ending.last_line or 'the child crashed'}")
    return replace(peaks, device=device.name)


def kept_folder() -> Path:
    """Below XDG_CACHE_HOME."""
    return cache_folder() / "inspector" / "peaks"


def kept_peaks() -> tuple[Peaks, ...]:
    """All that were ever measured on this machine and are kept, newest first; none where nobody may look."""
    try:
        kept = sorted(kept_folder().glob("*.json"))
    except OSError:
        return ()
    known = map(load_peaks, kept)
    return tuple(sorted(filter(None, known), key=lambda peaks: peaks.reference, reverse=True))


def load_peaks(path: Path) -> Peaks | None:
    """None where nothing readable is kept."""
    try:
        return Peaks.from_json(json.loads(read_plain(path)))
    except (OSError, ValueError, RecursionError):
        return None


def keep_peaks(peaks: Peaks, path: Path) -> None:
    """What cannot be kept is measured again next time."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(peaks.to_json(), indent=1) + "\n")
