"""What a capture keeps of what its machine can do: measured once, of the devices that its code runs on."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from explaining import bare

from inspector.capture.machine import machine_peaks
from inspector.capture.manifest import write_manifest
from inspector.capture.progress import Screen
from inspector.explain.least import machine_of
from inspector.explain.times import Times
from inspector.hardware import peaks as hardware
from inspector.hardware.peaks import Device, PeaksUnknown, load_peaks
from inspector.model.peaks import Costs, Peaks
from inspector.model.run import Manifest
from inspector.readers.manifest import parse_manifest

MANIFEST = Manifest(
    ("python",), "done", 0, 0.0, 1.0, torch_version="2.13.0", devices=("NVIDIA H100 80GB HBM3",)
)

CPU_CODE = (
    "empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda\nbuf0 = empty_strided_cpu((4, ))\n"
)
GPU_CODE = f"{CPU_CODE}with torch.cuda._DeviceGuard(0):\n    buf0 = empty_strided_cuda((4, ), (1, ))\n"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Device]:
    """The devices that were measured."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    devices: list[Device] = []

    def measure(device: Device, _: object) -> Peaks:
        devices.append(device)
        threads = 4 if device.kind == "cpu" else None
        day = "measured 2026-11-26"
        return Peaks(
            device.name, "measured", 1e10, reference=day, threads=threads, costs=Costs(subnormal_times=1.0)
        )

    monkeypatch.setattr(hardware, "measure_peaks", measure)
    return devices


def run_with(folder: Path, *codes: str) -> Path:
    for number, code in enumerate(codes):
        graph = (
            folder / f"torch_compile_debug/run_1/torchinductor/model__{number}_inference_{number}.{number}"
        )
        graph.mkdir(parents=True)
        (graph / "output_code.py").write_text(code)
    return folder


def measured(run: Path) -> tuple[tuple[Peaks, ...], tuple[str, ...]]:
    return machine_peaks(run, MANIFEST, "python", {"OMP_NUM_THREADS": "3"}, Screen(io.StringIO(), live=False))


def test_devices_are_those_that_code_runs_on_and_measured_once(tmp_path: Path, asked: list[Device]) -> None:
    run = run_with(tmp_path / "run", GPU_CODE, CPU_CODE)
    found, notes = measured(run)
    assert [(item.kind, item.torch, item.threads) for item in asked] == [
        ("cuda", "2.13.0", None),
        ("cpu", "2.13.0", 3),
    ]
    assert [item.device for item in found] == ["NVIDIA H100 80GB HBM3", asked[1].name] and notes == ()
    # By the threads that were there a replay finds them, too.
    assert load_peaks(replace(asked[1], threads=4).path) == found[1]
    assert measured(run) == (found, ()) and len(asked) == 2
    assert measured(run_with(tmp_path / "empty")) == ((), ())


def test_what_could_not_be_measured_is_no_figure_of_the_machine(
    tmp_path: Path, asked: list[Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Peaks:
        raise PeaksUnknown("no such device")

    run = run_with(tmp_path / "run", GPU_CODE)
    monkeypatch.setattr(hardware, "measure_peaks", fails)
    found, (note,) = measured(run)
    assert found == () and "not measured: no such device" in note
    busy = Peaks("NVIDIA H100", "measured", 1e10, busy_cpus=3.0)
    monkeypatch.setattr(hardware, "measure_peaks", lambda *_: busy)
    found, (note,) = measured(run)
    assert found == () and "the roofline's peaks are too low" in note
    assert load_peaks(Device("cuda", "NVIDIA H100 80GB HBM3", "2.13.0").path) is None


def test_a_run_is_judged_by_the_machine_that_captured_it(tmp_path: Path) -> None:
    """Wherever it is opened; without it by what the device's name says."""
    own = Peaks("NVIDIA H100", "measured", 2.9e12, {"float32": 5e13}, reference="measured 2026-11-26")
    write_manifest(tmp_path, replace(MANIFEST, peaks=(own,)))
    text = (tmp_path / "inspector.json").read_text()
    manifest, problems = parse_manifest(text, "inspector.json")
    assert manifest is not None and manifest.peaks == (own,) and problems == ()
    case = bare(Times(1.0))
    other = replace(own, device="cpu", threads=7, bytes_per_s=1e10)
    facts = replace(
        case.facts, manifest=replace(MANIFEST, peaks=(own, other)), devices=("NVIDIA H100 80GB HBM3",)
    )
    case = replace(case, facts=facts)
    assert machine_of(case).peaks == other
    assert machine_of(replace(case, threads=2)).peaks is None
    data = json.loads(text) | {"peaks": [{"device": "cpu", "source": "measured", "bytes_per_s": -1}]}
    manifest, (problem,) = parse_manifest(json.dumps(data), "inspector.json")
    assert (
        manifest is not None and manifest.peaks == () and problem.message == "peaks are no rates of a device"
    )
