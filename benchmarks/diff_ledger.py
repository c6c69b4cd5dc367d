"""How much of the difference of two timed runs `inspector diff` leaves unexplained.

    python benchmarks/diff_ledger.py FOLDER [PAIR ...] [--jobs N] [--cpu]

Both sides of a pair are programs of benchmarks/programs/natural as they are, captured with `--baseline`; B
has an edit, a mode or a setting of its own. FOLDER keeps the captures (NAME.run) and what `diff --json` says
(PAIR.json). Told of each pair: both sides' call, the difference, and the ledger's row `unexplained` as a part
of it; `outcome` is what the steady calls say of the two by themselves. With --jobs above 1 each job keeps to
its own part of the cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any

from common import CLI, PYTHON, ROOT, machine

NATURAL = ROOT / "benchmarks" / "programs" / "natural"


@dataclass(frozen=True)
class Pair:
    """`edits` are texts of the program and what B has in their place; `options` are B's for the capture."""

    program: str
    name: str
    options: tuple[str, ...] = ()
    edits: tuple[tuple[str, str], ...] = ()


GRAPHS = ("--mode", "reduce-overhead")
TUNED = ("--mode", "max-autotune-no-cudagraphs")
APART = ("--config", "max_fusion_size=1")

GPU = (
    Pair("diffusion_unet_block", "reduce-overhead", GRAPHS),
    Pair("diffusion_unet_block", "float32", edits=(("bfloat16", "float32"),)),
    Pair("conformer_conv", "nothing fuses", APART),
    Pair("conformer_conv", "operator added", edits=(("0.5 * self.net(x)", "0.5 * self.net(x).sin()"),)),
    Pair("encoder_fastpath", "float32", edits=((".half()", ""),)),
    Pair("encoder_fastpath", "max-autotune", TUNED),
    Pair("bottleneck_fp16", "reduce-overhead", GRAPHS),
    Pair("bottleneck_fp16", "half the batch", edits=(("pick(64, 2)", "pick(32, 2)"),)),
    Pair("gpt_train", "reduce-overhead", GRAPHS),
    Pair("gpt_train", "a layer more", edits=(("depth=2", "depth=3"),)),
    Pair("ft_transformer", "a layer more", edits=(("depth=2", "depth=3"),)),
    Pair("ft_transformer", "reduce-overhead", GRAPHS),
)
CPU = (
    Pair("bert_tiny", "nothing fuses", APART),
    Pair("siren_image_fit", "nothing fuses", APART),
    Pair("siren_image_fit", "one thread", ("--env", "OMP_NUM_THREADS=1")),
    Pair("tcn_causal_train", "no vectors", ("--config", "cpp.simdlen=1")),
    Pair("lenet_train", "freezing", ("--config", "freezing=true")),
    Pair("heston_paths", "no vectors", ("--config", "cpp.simdlen=1")),
    Pair("bilateral_filter", "nothing fuses", APART),
    Pair("vae_train", "nothing fuses", APART),
)


def words(pair: Pair) -> str:
    return "_".join((pair.program, *pair.name.split()))


def captured(name: str, program: Path, options: tuple[str, ...], prefix: list[str], log: Path) -> Path:
    run = log.with_name(f"{name}.run")
    if not run.exists():
        command = [*prefix, *CLI, "capture", "-q", "--exit-zero", "--baseline", "-o", str(run), *options]
        with log.open("w") as file:
            subprocess.run([*command, "--", PYTHON, str(program)], stdout=file, stderr=file, cwd=log.parent)
    return run


def sides(folder: Path, program: str, pairs: list[Pair], gpu: bool, prefix: list[str]) -> list[str]:
    """The lines of one program's pairs."""
    text = (NATURAL / ("gpu" if gpu else "cpu") / f"{program}.py").read_text()
    base = folder / f"{program}.py"
    base.write_text(text)
    a = captured(program, base, (), prefix, folder / f"{program}.log")
    lines = []
    for pair in pairs:
        began = time.monotonic()
        name, other = words(pair), base
        if pair.edits:
            edited = text
            for old, new in pair.edits:
                assert old in edited, (name, old)
                edited = edited.replace(old, new)
            other = folder / f"{name}.py"
            other.write_text(edited)
        b = captured(name, other, pair.options, prefix, folder / f"{name}.log")
        done = subprocess.run([*CLI, "diff", str(a), str(b), "--json"], capture_output=True, text=True)
        (folder / f"{name}.json").write_text(done.stdout)
        line = told(pair, done)
        lines.append(line)
        print(f"{line}   [{time.monotonic() - began:.0f} s]", flush=True)
    return lines


def told(pair: Pair, done: subprocess.CompletedProcess[str]) -> str:
    start = f"{pair.program:<22}{pair.name:<18}"
    if done.returncode:
        return f"{start}no answer: {(done.stderr.strip().splitlines() or ['-'])[-1]}"
    said: dict[str, Any] = json.loads(done.stdout)
    rows = said["ledger"]
    if not rows:
        return f"{start}no ledger: {said['verdict']}"
    before, after = (sum(row[side] for row in rows) for side in ("a_ms", "b_ms"))
    left = next(row["delta_ms"] for row in rows if row["part"] == "unexplained")
    whole = sum(row["delta_ms"] for row in rows)
    share = f"{abs(left / whole):6.1%}" if whole else "     -"
    return f"{start}{before:9.3f}{after:9.3f}{whole:+9.3f} ms {share} unexplained  {said['outcome']}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("pairs", nargs="*", help="programs")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cpu", action="store_true", help="the pairs that need no GPU")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    print(machine(), flush=True)
    by_program: dict[str, list[Pair]] = {}
    for pair in CPU if given.cpu else GPU:
        if not given.pairs or pair.program in given.pairs:
            by_program.setdefault(pair.program, []).append(pair)
    cores = sorted(os.sched_getaffinity(0))
    each = max(1, len(cores) // given.jobs)
    free: Queue[list[int]] = Queue()
    for number in range(given.jobs):
        free.put(cores[number * each : (number + 1) * each])

    def one(program: str) -> list[str]:
        own = free.get()
        try:
            prefix = ["taskset", "-c", ",".join(map(str, own))] if given.jobs > 1 else []
            return sides(folder, program, by_program[program], not given.cpu, prefix)
        finally:
            free.put(own)

    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(one, by_program))


if __name__ == "__main__":
    main()
