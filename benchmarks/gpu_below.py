"""What is said of instructions beside what they take, on a CUDA machine.

    python benchmarks/gpu_below.py OUT

1. Captures the programs of programs/below with a baseline, explains them, and keeps the findings, stages and
   profiles (OUT/NAME.json, OUT/NAME.tar.gz): which rules look below the kernels, and at what.
2. The same programs with TF32, in turns with themselves: what tensor cores really win of each kernel.
3. A product in float32 with many block shapes: its time beside the clocks that its loop needs by its
   instructions and by its rounds of shared memory's banks (analysis/bank_conflicts.py).
4. The cubins that ran beside the same kernels lowered again (lower.py --cubins).

Writes OUT/gpu_below.txt. Fifteen minutes on an H100.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from common import CLI, PYTHON, ROOT

sys.path.insert(0, str(ROOT))
PROGRAMS = ROOT / "benchmarks" / "programs" / "below"
NAMES = ("own_product", "capped_attention", "half_product")
RULES = (
    "no_tensor_cores",
    "bank_conflicts",
    "strided_accesses",
    "register_spills",
    "slow_kernel",
    "tf32_disabled",
)
ROUNDS = 30
KEPT = (
    "output_code.py",
    "ir_",
    "fx_graph_",
    ".json",
    ".jsonl",
    ".ptx",
    ".ttgir",
    ".cubin",
    ".sass",
    ".usage",
    ".gz",
)


def run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        [*command], capture_output=True, text=True, timeout=500, env={**os.environ, **environment}, cwd=ROOT
    )
    return done.stdout if done.returncode in (0, 1) and done.stdout else f"{done.stdout}{done.stderr[-3000:]}"


def explained(out: Path, told: Any) -> None:
    for name in NAMES:
        root = out / f"{name}.run"
        program = PROGRAMS / f"{name}.py"
        print(
            run(*CLI, "capture", "-q", "--baseline", "-o", str(root), "--", PYTHON, str(program))[-2000:],
            file=told,
        )
        run(*CLI, "lower", str(root), "--make", "--json")
        found = run(*CLI, "explain", str(root), "--all", "--json")
        (out / f"{name}.json").write_text(found)
        try:
            data = json.loads(found)
        except ValueError:
            print(name, "not explained:", found, file=told)
            continue
        print(f"\n{name}: {data['verdict']}", file=told)
        for finding in data["findings"]:
            claims = [(claim.get("ms"), claim.get("how")) for claim in finding.get("claims", ())]
            mark = "*" if finding["rule"] in RULES else " "
            print(
                f" {mark} {finding['severity']:6} {finding['rule']}: {finding['title']} {claims}", file=told
            )
            for each in finding["evidence"] if mark == "*" else ():
                print(f"       {Path(each['path']).name}:{each['line']} {each['text']}", file=told)
        with tarfile.open(out / f"{name}.tar.gz", "w:gz") as tar:
            for path in sorted(root.rglob("*")):
                if (
                    path.is_file()
                    and any(part in path.name for part in KEPT)
                    and path.stat().st_size < 8 << 20
                ):
                    tar.add(path, f"{name}.run/{path.relative_to(root)}")


def device_ms(function: Any) -> list[float]:
    """Of one call by the device's events, behind calls that warm it up."""
    import torch

    for _ in range(3):
        function()
    times = []
    for _ in range(ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        function()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return times


def with_tensor_cores(told: Any) -> None:
    import torch

    sys.path.insert(0, str(PROGRAMS))
    own: Any = importlib.import_module("own_product")
    capped: Any = importlib.import_module("capped_attention")
    x, y = (torch.randn(2048, 2048, device="cuda") for _ in range(2))
    q, k, v = (torch.randn(4, 8, 1024, 64, device="cuda") for _ in range(3))
    sides: dict[str, dict[str, Any]] = {"own product": {}, "flex attention, forward": {}}
    for precision in ("ieee", "tf32"):

        def product(precision: str = precision) -> None:
            own.PRECISION = precision
            own.product(x, y)

        torch.set_float32_matmul_precision("highest" if precision == "ieee" else "high")
        torch._dynamo.reset()
        flex = torch.compile(lambda q, k, v: capped.flex_attention(q, k, v, score_mod=capped.capped))
        flex(q, k, v)
        sides["own product"][precision] = product
        sides["flex attention, forward"][precision] = lambda flex=flex: flex(q, k, v)
    for name, both in sides.items():
        times: dict[str, list[float]] = {"ieee": [], "tf32": []}
        for _ in range(5):
            for precision, function in both.items():
                times[precision] += device_ms(function)
        before, after = (statistics.median(times[each]) for each in ("ieee", "tf32"))
        print(
            f"{name}: {before:.4f} ms without tensor cores, {after:.4f} with: {1 - after / before:.0%} less",
            file=told,
        )


def by_shape(told: Any) -> None:
    import torch

    from inspector.analysis.bank_conflicts import SCHEDULERS, conflicts
    from inspector.analysis.stage_facts import facts_of
    from inspector.readers.stages.ptx import parse_ptx

    own: Any = importlib.import_module("own_product")
    own.PRECISION = "ieee"
    size = 4096
    x, y, c = (torch.randn(size, size, device="cuda") for _ in range(3))
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    print("block warps: ms; clocks at 1.98 GHz by rounds, without conflicts, by instructions", file=told)
    shapes = [
        (64, 64, 32),
        (64, 128, 16),
        (128, 64, 16),
        (128, 128, 16),
        (128, 128, 8),
        (32, 64, 32),
        (64, 32, 64),
    ]
    for blocks, warps, transposed in itertools.product(shapes, (4, 8), (False, True)):
        b = y.t().contiguous().t() if transposed else y
        try:
            times = device_ms(lambda: own.product(x, b, blocks, num_warps=warps))  # noqa: B023
            kernel = own.product_kernel[(size // blocks[0], size // blocks[1])](
                x, b, c, size, size, size, *x.stride(), *b.stride(), *c.stride(),
                *blocks, "ieee", num_warps=warps,
            )  # fmt: skip
            stage = parse_ptx("ptx", kernel.asm["ptx"], "k.ptx")
            seen = conflicts(stage, facts_of(stage))
        except Exception as error:
            print(blocks, warps, transposed, repr(error)[:200], file=told)
            continue
        if seen is None:
            print(blocks, warps, transposed, f"{statistics.median(times):.3f} ms; no conflicts", file=told)
            continue
        # Warps of all blocks, on each multiprocessor, times the rounds of the loop.
        turns = size // blocks[0] * size // blocks[1] * warps / processors * size / blocks[2]
        clocks = [turns * each / 1.98e6 for each in (seen.rounds, seen.least, seen.instructions / SCHEDULERS)]
        text = ", ".join(f"{each:.3f}" for each in clocks)
        print(
            f"{blocks} {warps} {transposed=}: {statistics.median(times):.3f} ms; {text}; "
            f"registers {kernel.n_regs} spills {kernel.n_spills} {seen}",
            file=told,
            flush=True,
        )


def main() -> None:
    out = Path(sys.argv[1]).absolute()
    out.mkdir(parents=True, exist_ok=True)
    with (out / "gpu_below.txt").open("w") as told:
        import torch
        import triton

        print(torch.cuda.get_device_name(), torch.__version__, triton.__version__, file=told)
        for step in (explained_step(out), with_tensor_cores, by_shape):
            try:
                step(told)
            except Exception as error:
                print("failed:", repr(error)[:2000], file=told)
            told.flush()
        lower = str(ROOT / "benchmarks" / "lower.py")
        runs = [str(out / f"{name}.run") for name in NAMES]
        print(run(PYTHON, lower, "--cubins", *runs, PYTHONPATH=str(ROOT)), file=told)
    for name in NAMES:
        subprocess.run(["rm", "-rf", str(out / f"{name}.run")], check=False)


def explained_step(out: Path) -> Any:
    return lambda told: explained(out, told)


if __name__ == "__main__":
    main()
