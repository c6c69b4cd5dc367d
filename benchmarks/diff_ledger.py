"""How much of the difference of two timed runs `inspector diff` leaves unexplained.

    python benchmarks/diff_ledger.py FOLDER [PROGRAM ...] [--jobs N] [--gpus N] [--cpu] [--minutes M]

Both sides of a pair are programs of benchmarks/programs/natural as they are, captured with `--baseline`; B
has an edit, a mode or a setting of its own. FOLDER keeps the captures (NAME.run) and what `diff --json` says
(PAIR.json). Told of each pair: both sides' call, the difference, and the ledger's row `unexplained` as a part
of it; `outcome` is what the steady calls say of the two by themselves. With --jobs above 1 each job keeps to
its own part of the cores, and with --gpus to one GPU, which no other job should use. What is not captured
after --minutes is told as such.
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
TIMED_OUT = 124
"""What `timeout` exits with."""
APART = ("--config", "max_fusion_size=1")

GPU = (
    Pair("gpt_train", "reduce-overhead", GRAPHS),
    Pair("gpt_train", "a layer more", edits=(("depth=2", "depth=3"),)),
    Pair("conformer_conv", "nothing fuses", APART),
    Pair("conformer_conv", "operator added", edits=(("0.5 * self.net(x)", "0.5 * self.net(x).sin()"),)),
    Pair("diffusion_unet_block", "reduce-overhead", GRAPHS),
    Pair("diffusion_unet_block", "float32", edits=(("bfloat16", "float32"),)),
    Pair("bottleneck_fp16", "reduce-overhead", GRAPHS),
    Pair("bottleneck_fp16", "half the batch", edits=(("pick(64, 2)", "pick(32, 2)"),)),
    Pair("encoder_fastpath", "float32", edits=((".half()", ""),)),
    Pair("encoder_fastpath", "max-autotune", TUNED),
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


@dataclass(frozen=True)
class Place:
    """Where captures run: the words before their command, and the moment after which none goes on."""

    prefix: tuple[str, ...]
    end: float

    def captured(self, name: str, program: Path, options: tuple[str, ...]) -> Path | None:
        """The run, None where there was no time for it."""
        run, log = program.with_name(f"{name}.run"), program.with_name(f"{name}.log")
        if run.exists():
            return run
        left = int(self.end - time.monotonic())
        if left < 1:
            return None
        command = ["timeout", "-k", "5", str(left), *self.prefix, *CLI, "capture", "-q", "--exit-zero"]
        command += ["--baseline", "-o", str(run), *options, "--", PYTHON, str(program)]
        with log.open("w") as file:
            done = subprocess.run(command, stdout=file, stderr=file, cwd=log.parent)
        return run if done.returncode != TIMED_OUT else None


def sides(folder: Path, program: str, pairs: list[Pair], gpu: bool, place: Place) -> None:
    """Capture and tell one program's pairs."""
    text = (NATURAL / ("gpu" if gpu else "cpu") / f"{program}.py").read_text()
    base = folder / f"{program}.py"
    base.write_text(text)
    a = place.captured(program, base, ())
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
        b = place.captured(name, other, pair.options)
        if a is None or b is None:
            print(f"{pair.program:<22}{pair.name:<18}not captured in time", flush=True)
            continue
        done = subprocess.run([*CLI, "diff", str(a), str(b), "--json"], capture_output=True, text=True)
        (folder / f"{name}.json").write_text(done.stdout)
        print(f"{told(pair, done)}   [{time.monotonic() - began:.0f} s]", flush=True)


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
    parser.add_argument("--gpus", type=int, default=1, help="as many as jobs, so that none is shared")
    parser.add_argument("--cpu", action="store_true", help="the pairs that need no GPU")
    parser.add_argument("--minutes", type=float, default=1e6)
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
    end = time.monotonic() + 60 * given.minutes
    free: Queue[Place] = Queue()
    for number in range(given.jobs):
        own = ",".join(map(str, cores[number * each : (number + 1) * each]))
        visible = "" if given.cpu else str(number % given.gpus)
        free.put(Place(("env", f"CUDA_VISIBLE_DEVICES={visible}", "taskset", "-c", own), end))

    def one(program: str) -> None:
        place = free.get()
        try:
            sides(folder, program, by_program[program], not given.cpu, place)
        finally:
            free.put(place)

    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(one, by_program))


if __name__ == "__main__":
    main()
