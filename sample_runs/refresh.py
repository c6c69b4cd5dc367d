"""Capture the sample programs again, and pack each run beside its program.

    python sample_runs/refresh.py [NAME ...]      (default: every sample that this machine can run)

The stories are captured with a baseline and replayed, so that `inspector explain` has times for all of it. A
story may be captured in several ways, each an archive of its own (`OTHER_WAYS`); some need a GPU.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from inspector.pack.run import Packer
from inspector.readers.run import Run

HERE = Path(__file__).resolve().parent
SAMPLES = ("softmax", "transformer", "breaks", "h200")
STORIES = (
    "ten_million", "resnet_as_trained", "resnet_inference", "old_gpu", "first_call", "batch_sizes",
    "training_step", "matmuls", "small_softmax", "kv_by_position", "warp", "diffusion_noise", "relative_bias",
    "companding",
)  # fmt: skip
GPU_STORIES = (
    "transformer_gpu", "fp8_matmul", "decoder_upsample", "bicubic_of_mish", "depth_of_frames", "score_rollouts",
    "peak_of_recordings",
)  # fmt: skip
OTHER_WAYS = {"transformer_gpu": {"run_reduce_overhead": ("--mode", "reduce-overhead")}}
"""Story -> archive beside `run` -> the options of its capture."""
AFTER = (
    "kv_by_position", "warp", "diffusion_noise", "relative_bias", "decoder_upsample", "bicubic_of_mish",
    "peak_of_recordings",
)  # fmt: skip
"""Stories whose program takes the cause away where it is told `after`: `run_after` beside `run`."""


def pack(run: Path, target: Path) -> None:
    """Write `run` as `target` (.tar.xz), as `inspector pack` does, under its own name."""
    Packer(Run.open(run)).write(target, run.name)


def refresh(name: str, target: Path, way: tuple[str, ...] = (), words: tuple[str, ...] = ()) -> None:
    inspector = [sys.executable, "-m", "inspector.cli"]
    story = name in (*STORIES, *GPU_STORIES)
    with TemporaryDirectory() as folder:
        run = Path(folder).resolve() / name
        program = target.parent / f"{name}.py"
        options = [*(["--baseline"] if story else []), *way]
        what = [sys.executable, str(program), *words]
        command = [*inspector, "capture", *options, "-o", str(run), "--", *what]
        subprocess.run(command, check=True)
        if story and list(run.glob("torch_compile_debug/*/torchinductor/model__*")):
            subprocess.run([*inspector, "replay", str(run), "--rounds", "10"], check=True)
        shutil.copy(program, run / program.name)
        pack(run, target)
        print(f"{target}: {target.stat().st_size >> 10} KiB")


def main() -> None:
    import torch

    gpu = torch.cuda.is_available()
    here = [name for name in (*SAMPLES, *STORIES, *GPU_STORIES) if gpu or name not in ("h200", *GPU_STORIES)]
    for name in sys.argv[1:] or here:
        folder = HERE / "stories" / name if name in (*STORIES, *GPU_STORIES) else HERE / name
        for archive, way in {"run": (), **OTHER_WAYS.get(name, {})}.items():
            refresh(name, folder / f"{archive}.tar.xz", way)
        if name in AFTER:
            refresh(name, folder / "run_after.tar.xz", words=("after",))


if __name__ == "__main__":
    main()
