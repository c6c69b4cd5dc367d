"""Rooflines by hand, datasheets by name, and the peaks of the machine that runs the tests."""

from __future__ import annotations

import json
import math
import os
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest

from inspector.analysis.roofline import above_ms, arithmetic, place, ranked, roof, with_fractions
from inspector.hardware import peaks as machine_peaks
from inspector.hardware.datasheets import datasheet_peaks
from inspector.hardware.peaks import Device, Measurer, PeaksUnknown, keep_peaks, load_peaks, measure_peaks
from inspector.model.peaks import CacheRate, Costs, Peaks
from inspector.model.replay import GraphReplay, KernelReplay, OutputCheck, Timing
from inspector.replay.peaks import Rooflines
from inspector.replay.protocol import ReplayOptions

MEMORY = Peaks(
    "box",
    "measured",
    1e12,
    {"float32": 1e13, "tf32": 1e14, "bfloat16": 2e14},
    costs=Costs(graph_s=3e-5, subnormal_times=1.0),
)


def kernel(
    ms: float | None = 1.0,
    *,
    moved: int | None = None,
    flops: int | None = None,
    dtype: str = "float32",
    name: str = "k",
    call: int = 0,
) -> KernelReplay:
    time = Timing(ms, 0.0, 30) if ms is not None else None
    outputs = (OutputCheck(0, "match", dtype=dtype),)
    return KernelReplay(name, call, "match", time=time, bytes=moved, flops=flops, outputs=outputs)


def test_bytes_alone_are_bound_by_memory() -> None:
    # 5e8 bytes at 1e12 bytes/s take 0.5 ms.
    found = place(kernel(2.0, moved=500_000_000), MEMORY)
    assert found is not None
    assert found.roof.bound == "memory" and found.roof.rate == 1e12
    assert found.roof.least_ms == pytest.approx(0.5)
    assert found.fraction == pytest.approx(0.25)
    assert found.above_ms == pytest.approx(1.5) and found.note == ""


def test_the_longer_of_bytes_and_operations_counts() -> None:
    # 4e9 operations at 1e13/s take 0.4 ms, 1e8 bytes 0.1 ms.
    limit = roof(100_000_000, 4_000_000_000, "float32", MEMORY)
    assert limit is not None and limit.bound == "compute" and limit.least_ms == pytest.approx(0.4)
    # With bfloat16's 2e14/s the operations take 0.02 ms: the bytes count.
    limit = roof(100_000_000, 4_000_000_000, "bfloat16", MEMORY)
    assert limit is not None and limit.bound == "memory" and limit.least_ms == pytest.approx(0.1)


def test_what_is_unknown_sets_no_limit() -> None:
    assert roof(None, None, "float32", MEMORY) is None
    assert roof(None, 10, "float64", MEMORY) is None
    assert place(kernel(None, moved=10), MEMORY) is None
    assert place(kernel(0.0, moved=10), MEMORY) is None
    plain = kernel(1.0)
    assert with_fractions([plain], MEMORY) == (plain,)


def test_a_working_set_that_fits_a_cache_has_the_caches_rate() -> None:
    rates = (CacheRate(1 << 16, 4e12), CacheRate(1 << 20, 2e12))
    cpu = Peaks("cpu", "measured", 1e11, {}, cache_bytes=1 << 21, cache_rates=rates)

    def rate(size: int) -> tuple[float, str]:
        limit = roof(size, None, "float32", cpu)
        assert limit is not None
        return limit.rate, limit.bound

    assert rate(1 << 10) == (4e12, "cache"), "smaller than all that was measured"
    assert rate((1 << 20) - 1) == (4e12, "cache")
    assert rate(1 << 20) == (2e12, "cache")
    assert rate(1 << 21) == (2e12, "cache")
    assert rate((1 << 21) + 1) == (1e11, "memory")
    slow = Peaks("cpu", "measured", 1e11, {}, cache_bytes=1 << 21, cache_rates=(CacheRate(1 << 16, 1e10),))
    limit = roof(1 << 20, None, "float32", slow)
    assert limit is not None and (limit.rate, limit.bound) == (1e11, "memory")


def test_faster_than_the_roof_is_explained_not_hidden() -> None:
    gpu = Peaks("gpu", "datasheet", 1e12, {"float32": 1e12}, cache_bytes=50 << 20)
    small = place(kernel(0.01, moved=20_000_000), gpu)
    assert small is not None and small.fraction == pytest.approx(2.0) and small.above_ms == 0.0
    assert "fits the cache (50 MiB)" in small.note
    large = place(kernel(0.01, moved=100_000_000), gpu)
    assert large is not None and "measured copy" in large.note
    product = place(kernel(0.5, flops=1_000_000_000), gpu)
    assert product is not None and "matrix product" in product.note


def test_the_kind_of_arithmetic_comes_from_outputs_name_and_tf32() -> None:
    assert arithmetic(kernel(dtype="torch.bfloat16"), MEMORY) == "bfloat16"
    assert arithmetic(kernel(), MEMORY) == "float32"
    assert arithmetic(kernel(), MEMORY, tf32=True) == "tf32"
    assert arithmetic(kernel(name="extern_kernels.convolution"), MEMORY) == "tf32"
    without = Peaks("cpu", "measured", 1e12, {"float32": 1e13})
    assert arithmetic(kernel(name="extern_kernels.convolution"), without, tf32=True) == "float32"
    assert arithmetic(kernel(dtype="complex64"), without) == "float32"
    loops = replace(kernel(dtype="torch.bfloat16"), flops=9, flops_asked=3)
    assert arithmetic(loops, MEMORY, tf32=True) == "float32"
    scaled = kernel(name="torch.ops.aten._scaled_mm.default", dtype="bfloat16")
    assert arithmetic(scaled, MEMORY) == "float8_e4m3fn"


def test_kernels_are_ranked_by_time_by_what_lies_above_the_roof_and_as_launched() -> None:
    kernels = with_fractions(
        [
            kernel(4.0, moved=3_900_000_000, call=0),  # 3.9 ms at least: 0.1 above
            kernel(1.0, moved=100_000_000, call=1),  # 0.1 ms at least: 0.9 above
            kernel(None, moved=1, call=2),
            kernel(5.0, call=3),
        ],
        MEMORY,
    )
    by_time = ranked(kernels)
    assert [row.kernel.call for row in by_time] == [3, 0, 1, 2]
    assert [row.share for row in by_time[:3]] == [pytest.approx(x) for x in (0.5, 0.4, 0.1)]
    assert by_time[3].share is None and by_time[0].above_ms is None
    assert [row.kernel.call for row in ranked(kernels, "above")][:2] == [1, 0]
    assert above_ms(kernels[1]) == pytest.approx(0.9)
    assert [row.kernel.call for row in ranked(reversed(kernels), "order")] == [0, 1, 2, 3]


def test_peaks_survive_json_and_bad_json_is_none() -> None:
    peaks = Peaks(
        "box", "measured", 1e12, {"float32": 1e13}, 1 << 20, (CacheRate(1, 2e12),), "day", "2.13", 2, 0.5
    )
    assert Peaks.from_json(json.loads(json.dumps(peaks.to_json()))) == peaks
    assert Peaks.from_json({"device": "box"}) is None
    assert Peaks.from_json([1]) is None
    assert Peaks.from_json({**peaks.to_json(), "bytes_per_s": 0}) is None
    assert Peaks.from_json({**peaks.to_json(), "flops_per_s": {"float32": math.inf}}) is None
    costs = replace(peaks, costs=Costs(3e-5, sync_s=2e-5))
    assert Peaks.from_json(json.loads(json.dumps(costs.to_json()))) == costs
    assert Peaks.from_json({**peaks.to_json(), "costs": {"graph_s": -1.0}}) is None


# -- applied to a replay


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(machine_peaks, "measure_peaks", measure_peaks)
    monkeypatch.setattr(machine_peaks, "_LIMIT_S", 1e6)
    return tmp_path / "cache"


CPU = Device("cpu", "A CPU", "2.13.0", 2)
HERE = Measurer(None, os.environ)
MACHINE = {"cpu": "A CPU", "torch": "2.13.0", "threads": 2, "device": "NVIDIA H200"}


def graph(device: str = "cpu", *kernels: KernelReplay) -> GraphReplay:
    return GraphReplay(
        "model__0_inference_0.0", device=device, kernels=kernels or (kernel(2.0, moved=10**9),)
    )


def test_kept_peaks_fill_fractions_and_are_told_in_the_machine(cache: Path) -> None:
    path = CPU.path
    assert cache in path.parents
    keep_peaks(MEMORY, path)
    machine: dict[str, Any] = dict(MACHINE)
    placed = Rooflines(ReplayOptions()).apply(graph(), machine)
    assert placed.kernels[0].roofline_fraction == pytest.approx(0.5)
    assert placed.notes == ()
    assert Peaks.from_json(machine["peaks"]["cpu"]) == MEMORY


def test_peaks_of_another_torch_or_thread_count_are_others(cache: Path) -> None:
    keep_peaks(MEMORY, CPU.path)
    assert load_peaks(CPU.path) == MEMORY
    assert load_peaks(replace(CPU, torch="2.15.0").path) is None
    assert load_peaks(replace(CPU, threads=1).path) is None
    CPU.path.write_text("{", encoding="utf-8")
    assert load_peaks(CPU.path) is None


def test_a_cache_that_is_not_to_be_looked_into_has_no_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's home: Python before 3.13 raises there."""

    class Locked(type(Path())):  # type: ignore[misc]
        def glob(self, pattern: str) -> Any:
            raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(machine_peaks, "kept_folder", lambda: Locked("/home/other/.cache"))
    assert machine_peaks.kept_peaks() == ()


def test_nothing_is_measured_where_no_kernel_could_be_placed(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_peaks, "measure_peaks", lambda *_: pytest.fail("measured"))
    untimed = graph("cpu", kernel(None, moved=10))
    assert Rooflines(ReplayOptions()).apply(untimed, dict(MACHINE)) == untimed


def test_what_cannot_be_measured_comes_from_the_datasheet_and_says_so(cache: Path) -> None:
    options = ReplayOptions(python="/nonexistent/python")
    machine: dict[str, Any] = dict(MACHINE)
    placed = Rooflines(options).apply(graph("cuda"), machine)
    # 1e9 bytes at 4.8e12 bytes/s: 0.2083 ms of 2.
    assert placed.kernels[0].roofline_fraction == pytest.approx(0.2083 / 2, rel=1e-3)
    assert "datasheet of the NVIDIA H200, not measured: cannot start /nonexistent/python" in placed.notes[0]
    assert machine["peaks"]["cuda"]["source"] == "datasheet"
    alone = Rooflines(options).apply(graph("cpu"), machine)
    assert alone.kernels[0].roofline_fraction is None and "no roofline" in alone.notes[0]


def test_peaks_from_a_busy_machine_are_said_to_be_low(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And measured again by whoever asks next, where an older version kept them."""
    busy = Peaks("A CPU", "measured", 1e12, busy_cpus=1.5)
    keep_peaks(busy, CPU.path)
    monkeypatch.setattr(machine_peaks, "measure_peaks", lambda *_: busy)
    placed = Rooflines(ReplayOptions()).apply(graph(), dict(MACHINE))
    assert "1.5 CPUs busy" in placed.notes[0] and str(cache) not in placed.notes[0]
    free = replace(busy, bytes_per_s=2e12, busy_cpus=0.0)
    monkeypatch.setattr(machine_peaks, "measure_peaks", lambda *_: free)
    assert Rooflines(ReplayOptions()).apply(graph(), dict(MACHINE)).notes == graph().notes
    assert load_peaks(CPU.path) == free


@pytest.mark.parametrize("costs", [None, Costs(graph_s=3e-5)])
def test_peaks_without_costs_are_measured_again_where_that_works(
    cache: Path, monkeypatch: pytest.MonkeyPatch, costs: Costs | None
) -> None:
    """An older version kept them."""
    older = replace(MEMORY, costs=costs)
    keep_peaks(older, CPU.path)

    def fails(*_: object) -> Peaks:
        raise machine_peaks.PeaksUnknown("no torch here")

    monkeypatch.setattr(machine_peaks, "measure_peaks", fails)
    assert machine_peaks.find_peaks(CPU, HERE) == (older, "")
    monkeypatch.setattr(machine_peaks, "measure_peaks", lambda *_: MEMORY)
    assert machine_peaks.find_peaks(CPU, HERE) == (MEMORY, "")
    assert load_peaks(CPU.path) == MEMORY


@pytest.mark.slow
def test_this_cpus_peaks_are_measured_once_and_are_plausible(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests run beside this one.
    monkeypatch.setattr(machine_peaks, "BUSY_CPUS", math.inf)
    said: list[str] = []
    machine: dict[str, Any] = dict(MACHINE)
    placed = Rooflines(ReplayOptions(), said.append).apply(graph(), machine)
    assert said == ["measuring what this machine can do (once)"]
    peaks = Peaks.from_json(machine["peaks"]["cpu"])
    assert peaks is not None and peaks.source == "measured" and peaks.device == "A CPU"
    assert 1e8 < peaks.bytes_per_s < 1e13
    assert peaks.costs is not None and peaks.costs.graph_s is not None and 1e-6 < peaks.costs.graph_s < 1e-2
    assert peaks.costs.subnormal_times is not None and 0.5 < peaks.costs.subnormal_times < 1e3
    assert 1e8 < peaks.flops_per_s["float32"] < 1e15 and "float64" in peaks.flops_per_s
    rates = [rate.bytes_per_s for rate in peaks.cache_rates]
    assert rates == sorted(rates, reverse=True)
    assert placed.kernels[0].roofline_fraction is not None
    monkeypatch.setattr(machine_peaks, "measure_peaks", lambda *_: pytest.fail("measured again"))
    again = Rooflines(ReplayOptions(), said.append).apply(graph(), machine)
    assert again.kernels == placed.kernels and len(said) == 1


@pytest.mark.slow
def test_measuring_can_be_stopped(cache: Path) -> None:
    with pytest.raises(PeaksUnknown, match="stopped"):
        measure_peaks(CPU, replace(HERE, should_stop=lambda: True))


@pytest.mark.gpu
def test_this_gpus_peaks_are_near_its_datasheet() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    name = torch.cuda.get_device_name(0)
    measured, sheet = measure_peaks(Device("cuda", name), HERE), datasheet_peaks(name)
    assert measured.cache_bytes and not measured.cache_rates and measured.threads is None
    costs = measured.costs
    assert costs is not None and None not in astuple(replace(costs, subnormal_times=1.0))
    assert costs.division_s and costs.wide_division_s and costs.division_s < costs.wide_division_s < 1e-9
    assert costs.launch_s and costs.graph_s and costs.launch_s < costs.graph_s < 1e-2
    assert costs.copy_bytes_per_s and 1e8 < costs.copy_bytes_per_s < 1e12
    if sheet is None:
        pytest.skip(f"no datasheet of {name}")
    assert 0.6 < measured.bytes_per_s / sheet.bytes_per_s < 1.05
    for kind in ("float32", "bfloat16", "tf32"):
        assert 0.4 < measured.flops_per_s[kind] / sheet.flops_per_s[kind] < 1.1, kind
