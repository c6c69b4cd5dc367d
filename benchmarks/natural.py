"""Eager beside compiled for the programs of programs/natural, which nobody wrote with a rule in mind.

    python benchmarks/natural.py gpu|cpu --out results.jsonl [--limit-s 470] [--jobs 16] [--only NAME ...]

On a GPU programs are made and compiled several at a time, each in a process of its own; a wave of them is
timed only when all of the wave have compiled, failed or run out of their 60 s, one after another, on an
otherwise idle machine. One JSON line per program and outcome is appended as it comes; names that
already have a line are skipped, so a second call goes on. On a CPU one process runs at a time.
Order is random (--seed).

Per side: wall_ms (per call, of a run of calls between synchronisations), single_ms (one call and a
synchronisation), event_ms (the same run by CUDA events), device_ms, launches and top (profiler, 3 calls).
"""

import argparse
import contextlib
import importlib
import json
import os
import random
import selectors
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

KIND = next((argument for argument in sys.argv[1:] if argument in ("gpu", "cpu")), "gpu")
HERE = Path(__file__).resolve().parent / "programs/natural" / KIND
DEVICE = "cuda" if KIND == "gpu" else "cpu"
GPU = DEVICE == "cuda"

Step = Callable[[], Any]


def quartiles(values: list[float]) -> dict[str, float]:
    q = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
    return {
        "median": round(q[1], 5),
        "iqr": round(q[2] - q[0], 5),
        "min": round(min(values), 5),
        "n": len(values),
    }


def load(name: str) -> Any:
    sys.path.insert(0, str(HERE))
    return importlib.import_module(name)


def first_tensor(value: Any) -> Any:
    import torch

    return value if isinstance(value, torch.Tensor) else first_tensor(value[0])


def difference(a: Any, b: Any) -> dict[str, Any]:
    """Largest difference and magnitude of two results; random programs differ by right."""
    import torch

    a, b = first_tensor(a).detach(), first_tensor(b).detach()
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    if a.shape != b.shape:
        return {"shapes": [list(a.shape), list(b.shape)]}
    a, b = a.double(), b.double()
    return {"max_diff": (a - b).abs().max().item(), "max": a.abs().max().item()}


def time_sides(
    sides: dict[str, Step], seconds: float, sync: Step, event: Step | None
) -> dict[str, dict[str, Any]]:
    """Interleaved rounds: wall and (where there are events) stream time per call, in ms."""
    calls = {}
    for key, fn in sides.items():
        sync()
        start = time.perf_counter()
        for _ in range(3):
            fn()
        sync()
        per = (time.perf_counter() - start) / 3
        calls[key] = max(1, min(100, round(0.003 / max(per, 1e-6))))
    samples: dict[str, dict[str, list[float]]] = {
        key: {"wall_ms": [], "event_ms": [], "single_ms": []} for key in sides
    }
    begin, rounds = time.perf_counter(), 0
    while rounds < 60 and (rounds < 7 or time.perf_counter() - begin < seconds):
        order = list(sides)
        random.shuffle(order)
        for key in order:
            fn, n, into = sides[key], calls[key], samples[key]
            sync()
            start = time.perf_counter()
            if event:
                a, b = event(), event()
                a.record()
            for _ in range(n):
                fn()
            if event:
                b.record()
            sync()
            into["wall_ms"].append((time.perf_counter() - start) * 1e3 / n)
            if event:
                into["event_ms"].append(a.elapsed_time(b) / n)
            start = time.perf_counter()
            fn()
            sync()
            into["single_ms"].append((time.perf_counter() - start) * 1e3)
        rounds += 1
        if rounds >= 3 and time.perf_counter() - begin > 4 * seconds:
            break
    out: dict[str, dict[str, Any]] = {}
    for key in sides:
        out[key] = {k: quartiles(v) for k, v in samples[key].items() if v}
        out[key]["calls_per_sample"] = calls[key]
    return out


def kernels(fn: Step, sync: Step, calls: int = 3) -> dict[str, Any]:
    """Device time per call and the largest kernels, from the profiler."""
    from torch.profiler import ProfilerActivity, profile

    fn()
    sync()
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        for _ in range(calls):
            fn()
        sync()
    totals: dict[str, tuple[int, float]] = {}
    count = 0
    for e in prof.events():
        if e.device_type.name == "CUDA" and not getattr(e, "is_user_annotation", False):
            ms = e.time_range.elapsed_us() / 1e3
            n, t = totals.get(e.name, (0, 0.0))
            totals[e.name] = (n + 1, t + ms)
            count += 1
    top = sorted(totals.items(), key=lambda kv: -kv[1][1])[:6]
    return {
        "device_ms": round(sum(t for _, t in totals.values()) / calls, 5),
        "launches": round(count / calls, 1),
        "top": [{"name": k[:90], "ms": round(t / calls, 5), "n": round(n / calls, 1)} for k, (n, t) in top],
    }


def child(name: str, seconds: float) -> None:
    """Protocol on stdout: 'READY', then, after a line on stdin, one line of JSON."""
    protocol = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    result: dict[str, Any] = {"name": name}
    try:
        import torch

        sync = torch.cuda.synchronize if GPU else lambda: None
        start = time.perf_counter()
        eager, compiled = load(name).make(DEVICE)
        sync()
        result["make_s"] = round(time.perf_counter() - start, 2)
        for key, fn in (("eager", eager), ("compiled", compiled)):
            start = time.perf_counter()
            value = fn()
            sync()
            result[f"{key}_first_s"] = round(time.perf_counter() - start, 3)
            result.setdefault("_values", []).append(value)
        try:
            result["difference"] = difference(*result["_values"])
        except Exception as error:
            result["difference"] = {"error": str(error)[:200]}
        del result["_values"], value
        for _ in range(4):
            eager()
            compiled()
        sync()
        from torch._dynamo.utils import counters

        result["graphs"] = counters["stats"].get("unique_graphs", 0)
        result["breaks"] = [str(k)[:160] for k in counters["graph_break"]]
        if GPU:
            result["memory_gb"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
            torch.cuda.empty_cache()
        print("READY", file=protocol)
        sys.stdin.readline()
        sides = {"eager": eager, "compiled": compiled}
        for fn in sides.values():
            for _ in range(5):
                fn()
        result.update(
            time_sides(sides, seconds, sync, (lambda: torch.cuda.Event(enable_timing=True)) if GPU else None)
        )
        result["speedup"] = round(
            result["eager"]["wall_ms"]["median"] / result["compiled"]["wall_ms"]["median"], 3
        )
        for key, fn in sides.items() if GPU else ():
            try:
                result[key].update(kernels(fn, sync))
            except Exception as error:
                result[key]["profile_error"] = str(error)[:200]
        result["ok"] = True
    except BaseException as error:
        result.pop("_values", None)
        result.update(ok=False, error=f"{type(error).__name__}: {error}"[:600])
    print(json.dumps(result), file=protocol)
    protocol.flush()
    os._exit(0)


def start(name: str, seconds: float) -> subprocess.Popen[str]:
    env = dict(os.environ, PYTHONWARNINGS="ignore")
    if GPU:
        env.update(TORCHINDUCTOR_COMPILE_THREADS="1", OMP_NUM_THREADS="1")
    return subprocess.Popen(
        [sys.executable, __file__, KIND, "--child", name, "--seconds", str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=env,
        start_new_session=True,
    )


def stop(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def line(process: subprocess.Popen[str], timeout: float) -> str | None:
    """The next line of a child, or None after timeout seconds or at its end."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(max(0.0, timeout)):
            return None
    return process.stdout.readline() or None


def run(names: list[str], args: argparse.Namespace, write: Callable[[dict[str, Any]], None]) -> None:
    began = time.monotonic()

    def left() -> float:
        return args.limit_s - (time.monotonic() - began)

    queue = list(names)
    while queue:
        if left() < 15:
            print(f"out of time with {len(queue)} left", file=sys.stderr)
            return
        wave, queue = queue[: args.jobs], queue[args.jobs :]
        started = time.monotonic()
        children = {name: start(name, args.seconds) for name in wave}
        ready = []
        deadline = started + min(args.program_limit_s, left() - 10)
        for name, process in children.items():
            text = line(process, deadline - time.monotonic())
            if text is None:
                stop(process)
                write(
                    {
                        "name": name,
                        "ok": False,
                        "error": f"nothing within {time.monotonic() - started:.0f} s (or died)",
                    }
                )
            elif text.startswith("READY"):
                ready.append(name)
            else:
                write(json.loads(text))
                stop(process)
        for name in ready:
            process = children[name]
            try:
                if left() < 3:
                    break
                assert process.stdin is not None
                process.stdin.write("go\n")
                process.stdin.flush()
                text = line(process, min(20.0, left()))
                write(
                    json.loads(text)
                    if text
                    else {"name": name, "ok": False, "error": "timing gave nothing in 20 s"}
                )
            except (OSError, ValueError) as error:
                write({"name": name, "ok": False, "error": str(error)})
            finally:
                stop(process)
        for process in children.values():
            stop(process)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("gpu", "cpu"))
    parser.add_argument("--out", default="results.jsonl")
    parser.add_argument("--limit-s", type=float, default=470 if GPU else 3600)
    parser.add_argument("--program-limit-s", type=float, default=60 if GPU else 120)
    parser.add_argument(
        "--seconds", type=float, default=0.4 if GPU else 2.0, help="time spent on the rounds of one program"
    )
    parser.add_argument("--jobs", type=int, default=16 if GPU else 1)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--child")
    args = parser.parse_args()
    if args.child:
        child(args.child, args.seconds)
        return
    names = args.only or sorted(p.stem for p in HERE.glob("*.py"))
    done = set()
    if os.path.exists(args.out):
        done = {json.loads(text)["name"] for text in Path(args.out).read_text().splitlines() if text}
    names = [n for n in names if n not in done]
    random.seed(args.seed)
    random.shuffle(names)

    def write(row: dict[str, Any]) -> None:
        with open(args.out, "a") as handle:
            handle.write(json.dumps(row) + "\n")
        if row.get("ok"):
            e, c = row["eager"]["wall_ms"], row["compiled"]["wall_ms"]
            times = f"eager {e['median']:9.4f} compiled {c['median']:9.4f} ms"
            print(f"{row['name']:28} {times}  x{row['speedup']}", flush=True)
        else:
            print(f"{row['name']:28} FAILED {row['error'][:120]}", flush=True)

    run(names, args, write)


if __name__ == "__main__":
    main()
