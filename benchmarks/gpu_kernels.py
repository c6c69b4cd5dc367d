"""Per-kernel times of replay beside triton.testing.do_bench and torch.profiler, on a CUDA machine.

    python benchmarks/gpu_kernels.py OUT [RUN ...]

Unpacks the captured H200 runs (or those that are named, or run folders) and, for each graph, calls the
wrapper once with every launch measured three times over on the arguments that it really gets: by replay's
own clock, by do_bench, and by the profiler's device times of launches behind the same L2 flush. Then the
whole call: wall time, replay's sum of kernels, the profiler's sum of device times, one CUDA graph. Each run
is also replayed by the command, for its verdicts. Writes OUT/gpu_kernels.json and OUT/gpu_kernels.txt.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tarfile
import time
import traceback
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common import CLI, DATA, PYTHON, ROOT

sys.path.insert(0, str(ROOT))

from inspector.replay.protocol import Event, Note

RUNS = ("resnet50", "llama_infer", "norms", "fp8", "autotune", "cudagraphs", "softmax", "addrelumul")
LAUNCHES = 20


class Silent:
    """A reporter that keeps notes and says nothing."""

    def send(self, event: Event) -> None:
        if isinstance(event, Note):
            print("   ", event.text, flush=True)


def measure(folder: Path) -> dict[str, Any]:
    """One graph, in this process."""
    import torch
    from triton.testing import do_bench

    from inspector.readers.run import Run
    from inspector.replay.plan import graph_files
    from inspector.replay.protocol import ReplayOptions, Request
    from inspector.replay.worker.code.launches import HookedCode
    from inspector.replay.worker.replay import Replay
    from inspector.replay.worker.timing.kernels import KernelClock, captured, repeatable

    files = graph_files(Run.open(folder).graphs[0])
    assert files.kernels is not None
    with TemporaryDirectory() as scratch:
        request = Request(files, ReplayOptions(), Path(scratch))
        replay = Replay(request, Silent())  # type: ignore[arg-type]
        device = replay._device(files.output_code.read_text())
        code = replay._load_code(files.output_code)
        program = replay._load_program()
        inputs = replay._make_inputs(code, program, replay._run_forward())
        clock = KernelClock(device, 0.1, True)
        calls = {call.index: call for call in files.kernels.calls}
        rows: list[dict[str, Any]] = []

        def hook(index: int, names: dict[str, Any], function: Any, /, *args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            torch.cuda.synchronize()
            launch = repeatable(function, args, kwargs)
            row: dict[str, Any] = {"call": index, "kernel": calls[index].kernel}
            try:
                times = clock.measure(index, launch)
                assert times.time_warm is not None
                row["ours_us"] = times.time.median_ms * 1e3
                if times.device_ms is not None:
                    row["device_us"] = times.device_ms * 1e3
                row["ours_iqr_us"] = times.time.iqr_ms * 1e3
                row["warm_us"] = times.time_warm.median_ms * 1e3
                row["do_bench_us"] = do_bench(launch, warmup=10, rep=60, return_mode="median") * 1e3
                row["profiler_us"] = profiled(launch, clock._flush, LAUNCHES)
            except Exception as error:
                traceback.print_exc()
                row["error"] = str(error).split("\n")[0]
            rows.append(row)
            return result

        HookedCode(code, files.kernels.calls).run(inputs.fresh(), hook)
        args = inputs.fresh()
        whole = whole_call(lambda: code.call(list(args)), captured)
    return {"kernels": rows, **whole}


def whole_call(call: Any, captured: Any) -> dict[str, Any]:
    """Milliseconds of one call: by the host's clock, device work by the profiler, as one CUDA graph."""
    import torch

    for _ in range(5):
        call()
    torch.cuda.synchronize()
    walls = []
    for _ in range(30):
        started = time.perf_counter()
        for _ in range(10):
            call()
        torch.cuda.synchronize()
        walls.append((time.perf_counter() - started) * 100)
    found: dict[str, Any] = {"wall_ms": statistics.median(walls)}
    found["profiler_sum_ms"] = profiled(call, None, LAUNCHES) / 1e3
    graph = captured(call, 1)
    if graph is not None:
        times = []
        for _ in range(30):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        found["cudagraph_ms"] = statistics.median(times)
    return found


def profiled(action: Any, flush: Any, count: int) -> float:
    """Device microseconds of one `action` by torch.profiler, the flush's own left out."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    for _ in range(2):
        action()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(count):
            if flush is not None:
                flush.zero_()
            action()
        torch.cuda.synchronize()
    times: dict[str, list[float]] = {}
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            times.setdefault(event.name, []).append(event.time_range.elapsed_us())
    if flush is not None:
        # The flush is the one that clears 256 MB: a fill or memset kernel, the longest of its kind.
        fills = [name for name in times if "Fill" in name or "emset" in name]
        if fills:
            longest = max(fills, key=lambda name: max(times[name]))
            times[longest] = sorted(times[longest])[: max(0, len(times[longest]) - count)]
    return sum(map(sum, times.values())) / count


def replayed(run: Path) -> dict[str, Any]:
    """`inspector replay` of a whole run."""
    command = [*CLI, "replay", str(run), "--trust", "--json", "--cudagraphs"]
    started = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=590)
    try:
        result: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        result = {"error": done.stderr.strip()[-2000:]}
    result["seconds"] = round(time.perf_counter() - started, 1)
    return result


def within(rows: list[dict[str, Any]], key: str, least_us: float, own: str = "ours_us") -> str:
    """`31 of 33 within 5 %, worst 6.2 %, median 1.0 %` of ours against `key`."""
    ratios = [abs(row[own] / row[key] - 1) for row in rows if row.get(key, 0) > least_us and own in row]
    if not ratios:
        return "none"
    inside = sum(ratio <= 0.05 for ratio in ratios)
    return (
        f"{inside} of {len(ratios)} within 5 %, worst {100 * max(ratios):.1f} %, "
        f"median {100 * statistics.median(ratios):.1f} %"
    )


def lines(name: str, result: dict[str, Any]) -> list[str]:
    found = [f"{name}"]
    for graph in result["replay"].get("graphs", ()):
        verdicts = Counter(kernel["verdict"] for kernel in graph["kernels"])
        shown = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        wall, kernels, gap = graph["compiled_wall_ms"], graph["kernels_ms"], graph["host_gap_ms"]
        found.append(f"  replay {graph['name']}: {shown}; {graph['failure'] or 'no failure'}")
        found.append(
            f"    wall {wall} ms, kernels {kernels} ms, gap {gap} ms, CUDA graph {graph['cudagraph_ms']}"
        )
        for kernel in graph["kernels"]:
            if kernel["verdict"] != "match":
                text = f"call {kernel['call']} {kernel['name']}: {kernel['verdict']} {kernel['reason']}"
                found.append(f"    {text[:240]}")
    if "error" in result["replay"]:
        found.append(f"  replay failed: {result['replay']['error']}")
    for graph, measured in result["measured"].items():
        if "error" in measured:
            found.append(f"  {graph}: {measured['error']}")
            continue
        rows = measured["kernels"]
        total = sum(row.get("device_us", 0.0) for row in rows) / 1e3
        found.append(
            f"  {graph}: {len(rows)} launches; wall {measured['wall_ms']:.4f} ms, kernels {total:.4f}, "
            f"profiler's sum {measured['profiler_sum_ms']:.4f}, CUDA graph {measured.get('cudagraph_ms')}"
        )
        found.append(f"    against do_bench: {within(rows, 'do_bench_us', 0)}")
        found.append(f"    against do_bench over 10 us: {within(rows, 'do_bench_us', 10)}")
        found.append(f"    against the profiler over 10 us: {within(rows, 'profiler_us', 10, 'device_us')}")
        worst = sorted(
            rows, key=lambda row: -abs(row.get("ours_us", 0) / max(row.get("do_bench_us", 1), 1e-3) - 1)
        )
        for row in [*worst[:4], *sorted(rows, key=lambda row: -row.get("ours_us", 0))[:6]]:
            times = "  ".join(
                f"{key} {row[f'{key}_us']:.2f}"
                for key in ("ours", "do_bench", "device", "profiler", "warm")
                if f"{key}_us" in row
            )
            found.append(f"      {row['call']:>4} {row['kernel'][:60]:<60} {times} {row.get('error', '')}")
    return found


def kernels_of_corpus(out: Path, named: list[str]) -> None:
    """The whole benchmark; writes after every run, so that a time limit costs only what was not done."""
    results: dict[str, Any] = {}
    text: list[str] = []
    with TemporaryDirectory() as folder:
        with tarfile.open(DATA / "h200-torch2.11.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        corpus = Path(folder) / "h200-torch2.11"
        runs = [corpus / name if name in RUNS else Path(name) for name in named or RUNS]
        for run in runs:
            result: dict[str, Any] = {"replay": replayed(run), "measured": {}}
            for code in sorted(run.rglob("output_code.py")):
                command = [PYTHON, __file__, "--graph", str(code.parent)]
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=590, cwd=ROOT / "benchmarks"
                )
                last = done.stdout.strip().splitlines()[-1:] or [""]
                try:
                    result["measured"][code.parent.name] = json.loads(last[0])
                except ValueError:
                    result["measured"][code.parent.name] = {"error": done.stderr[-1500:]}
            results[run.name] = result
            text += lines(run.name, result)
            out.mkdir(parents=True, exist_ok=True)
            (out / "gpu_kernels.json").write_text(json.dumps(results, indent=1))
            (out / "gpu_kernels.txt").write_text("\n".join(text) + "\n")
            print("\n".join(lines(run.name, result)), flush=True)


def main() -> None:
    if sys.argv[1] == "--graph":
        import torch

        with torch.no_grad():
            print("\n" + json.dumps(measure(Path(sys.argv[2]))))
        return
    kernels_of_corpus(Path(sys.argv[1]).resolve(), sys.argv[2:])


if __name__ == "__main__":
    main()
