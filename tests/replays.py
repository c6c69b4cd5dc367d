"""Results of replays as a machine would leave them, for tests of what shows them."""

from __future__ import annotations

from inspector.analysis.roofline import with_fractions
from inspector.hardware.datasheets import datasheet_peaks
from inspector.model.code import KernelCall, OutputCode
from inspector.model.peaks import CacheRate, Costs, Peaks
from inspector.model.replay import (
    GraphReplay,
    KernelReplay,
    OutputCheck,
    ReplayResult,
    Timing,
    Verdict,
    WorstElement,
)

CPU = Peaks(
    device="Test CPU",
    source="measured",
    bytes_per_s=20e9,
    flops_per_s={"float32": 200e9, "bfloat16": 400e9},
    cache_bytes=32 << 20,
    cache_rates=(CacheRate(1 << 16, 100e9), CacheRate(1 << 22, 60e9)),
    reference="measured 2026-11-21",
    torch="2.13.0",
    threads=2,
    costs=Costs(graph_s=3e-5, subnormal_times=1.0),
)

H200 = datasheet_peaks("NVIDIA H200")

_ODD: dict[int, Verdict] = {2: "unverifiable", 5: "mismatch", 7: "eager_closer"}


def kernel_replay(call: KernelCall, factor: float = 1.0, gpu: bool = False) -> KernelReplay:
    """A result that differs from launch to launch, the same in every run of the tests."""
    moved = 40_000 * (call.index % 7 + 1) * (200 if gpu else 1)
    time_ms = factor * (0.004 + 0.003 * (call.index * 7 % 5)) * (1 if gpu else 2)
    verdict: Verdict = _ODD.get(call.index, "match")
    reason = {
        "unverifiable": "draws random numbers: the same seed does not give eager the same",
        "mismatch": "48 of 10000 elements are outside the tolerance, eager's are inside",
        "eager_closer": "both are outside the tolerance, eager is nearer to float64",
    }.get(verdict, "")
    check = OutputCheck(
        0,
        verdict,
        reason,
        dtype="float32",
        shape=(100, 100),
        error_compiled=0.25 if verdict == "mismatch" else 1.2e-7,
        error_eager=1.3e-7,
        rtol=1.3e-6,
        atol=1e-5,
        name=call.outputs[0] if call.outputs else "",
        elements=10_000,
        outside_compiled=48 if verdict == "mismatch" else 0,
    )
    worst = WorstElement(check.name, (3, 17), 0.123456, 0.373456, 0.37345601)
    mm = call.kernel.rsplit(".", 1)[-1] in ("mm", "addmm", "bmm")
    return KernelReplay(
        name=call.kernel,
        call=call.index,
        verdict=verdict,
        reason=reason,
        time=Timing(time_ms, time_ms * 0.04, 30),
        bytes=moved,
        flops=2_000_000 if mm else None,
        gbps=moved / time_ms / 1e6,
        error_compiled=check.error_compiled,
        error_eager=check.error_eager,
        outputs=(check,),
        worst=(worst,) if verdict in ("mismatch", "eager_closer") else (),
        registers=32 + call.index if gpu and call.kind == "triton" else None,
        spills=(8 if call.index == 5 else 0) if gpu and call.kind == "triton" else None,
        shared_bytes=1024 if gpu and call.kind == "triton" else None,
    )


def replay_of(ident: str, code: OutputCode, factor: float = 1.0, gpu: bool = False) -> GraphReplay:
    """All launches of a graph, with a host gap of a tenth."""
    peaks = H200 if gpu else CPU
    assert peaks is not None
    kernels = with_fractions([kernel_replay(call, factor, gpu) for call in code.calls], peaks)
    total = sum(kernel.time.median_ms for kernel in kernels if kernel.time)
    compiled = Timing(total * 1.1, total * 0.02, 30)
    output = OutputCheck(0, "match", dtype="float32", shape=(100, 100), error_compiled=1e-7, error_eager=2e-7)
    return GraphReplay(
        ident,
        eager=Timing(total * 1.4, total * 0.03, 30),
        compiled=compiled,
        outputs=(output,),
        device="cuda" if gpu else "cpu",
        compiled_wall=compiled if gpu else None,
        kernels=kernels,
    )


def result_of(started: float, *graphs: GraphReplay) -> ReplayResult:
    assert H200 is not None
    machine = {
        "cpu": "Test CPU",
        "device": "NVIDIA H200",
        "torch": "2.13.0",
        "peaks": {"cpu": CPU.to_json(), "cuda": H200.to_json()},
    }
    return ReplayResult(machine, graphs, started)
