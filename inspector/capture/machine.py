"""What the machine of a capture can do, kept with the run: the least that its kernels take is by that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from inspector.hardware.host import cpu_name, usable_cpus
from inspector.hardware.peaks import BUSY_CPUS, Device, Measurer, find_peaks, keep_peaks
from inspector.model.peaks import Peaks
from inspector.model.run import Manifest

from .progress import Display

_CODE = "torch_compile_debug/**/output_code.py"
_MOST_READ = 50
"""Files of generated code that are looked at for the devices that it runs on."""
_ON_GPU = b"torch.cuda._DeviceGuard"
"""Around what a wrapper launches there (torch/_inductor/codegen/wrapper.py)."""


def machine_peaks(
    run: Path, manifest: Manifest, python: str, environ: Mapping[str, str], screen: Display
) -> tuple[tuple[Peaks, ...], tuple[str, ...]]:
    """The peaks of each kind of device that generated code runs on, measured by `python` where nobody did
    before; and notes on what could not be. A datasheet's are none of this machine's, nor are those of one
    that others kept busy."""
    measurer = Measurer(
        python,
        environ,
        lambda text: screen.say(f"inspector: {text}"),
        lambda: bool(screen.stop_requests),
    )
    known: list[Peaks] = []
    notes: list[str] = []
    for device in _devices(run, manifest, environ):
        peaks, note = find_peaks(device, measurer)
        if peaks is not None and peaks.source == "measured" and peaks.busy_cpus <= BUSY_CPUS:
            known.append(peaks)
            # What is replayed asks by the threads that torch had.
            keep_peaks(peaks, replace(device, threads=peaks.threads).path)
        notes += [note] if note else []
    return tuple(known), tuple(notes)


def _devices(run: Path, manifest: Manifest, environ: Mapping[str, str]) -> Iterator[Device]:
    torch = manifest.torch_version or ""
    kinds = {"cuda" if _ON_GPU in _start(path) else "cpu" for path in sorted(run.glob(_CODE))[:_MOST_READ]}
    if "cuda" in kinds and manifest.devices:
        yield Device("cuda", manifest.devices[0], torch)
    if "cpu" in kinds:
        yield Device("cpu", cpu_name(), torch, _threads(environ))


def _start(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _threads(environ: Mapping[str, str]) -> int | None:
    """What torch takes by itself (aten/src/ATen/ParallelOpenMP.cpp): OMP_NUM_THREADS, else all CPUs."""
    asked = environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdigit() else usable_cpus()
