"""Capture the sample programs again, replace local paths, and pack each run beside its program.

    python sample_runs/refresh.py [NAME ...]      (default: every sample that this machine can run)

The stories are captured with a baseline and replayed, so that `inspector explain` has times for all of it. A
story may be captured in several ways, each an archive of its own (`OTHER_WAYS`); some need a GPU.

The caches are left out: they hold compiled binaries, which nobody wants to download or trust.
"""

from __future__ import annotations

import getpass
import gzip
import io
import json
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent
SAMPLES = ("softmax", "transformer", "breaks", "h200")
STORIES = (
    "ten_million", "resnet_as_trained", "resnet_inference", "old_gpu", "first_call", "batch_sizes",
    "training_step", "matmuls", "small_softmax", "kv_by_position", "warp", "diffusion_noise", "relative_bias",
)  # fmt: skip
GPU_STORIES = ("transformer_gpu", "fp8_matmul", "decoder_upsample", "bicubic_of_mish")
OTHER_WAYS = {"transformer_gpu": {"run_reduce_overhead": ("--mode", "reduce-overhead")}}
"""Story -> archive beside `run` -> the options of its capture."""
LEFT_OUT = {"cache"}


def replacements(run: Path) -> list[tuple[bytes, bytes]]:
    """Longest paths first, so that a folder is replaced before the folder that holds it."""
    prefix = "/home/user"
    pairs = {
        str(run): f"{prefix}/runs/{run.name}",
        str(HERE.parent): f"{prefix}/inspector",
        sysconfig.get_path("purelib"): f"{prefix}/venv/lib/python/site-packages",
        sys.prefix: f"{prefix}/venv",
        sys.base_prefix: f"{prefix}/python",
        str(Path.home()): prefix,
    }
    ordered = sorted(pairs.items(), key=lambda pair: -len(pair[0]))
    return [(old.encode(), new.encode()) for old, new in ordered if len(old) > 3]


def clean(data: bytes, pairs: list[tuple[bytes, bytes]], name: str) -> bytes:
    """The file's bytes without paths, user and host of this machine."""
    if name.endswith(".gz"):
        inside = clean(gzip.decompress(data), pairs, name.removesuffix(".gz"))
        return gzip.compress(inside, mtime=0)
    for old, new in pairs:
        data = data.replace(old, new)
    # Guards name files by the last parts of their paths.
    data = data.replace(f"{HERE.parent.name}/sample_runs".encode(), b"inspector/sample_runs")
    data = re.sub(rb"/tmp/torchinductor_\w+", b"/tmp/torchinductor_user", data)
    data = data.replace(f"torchinductor_{getpass.getuser()}".encode(), b"torchinductor_user")
    if name == "inspector.json":
        manifest = json.loads(data)
        manifest["host"] = None
        data = json.dumps(manifest, indent=2).encode() + b"\n"
    return data.replace(platform.node().encode(), b"host") if len(platform.node()) > 3 else data


def pack(run: Path, target: Path) -> None:
    """Write `run` as `target` (.tar.xz), cleaned; beside first, then renamed."""
    pairs = replacements(run)
    beside = target.with_name(target.name + ".part")
    with tarfile.open(beside, "w:xz", preset=9) as tar:
        for path in sorted(run.rglob("*")):
            relative = path.relative_to(run)
            if LEFT_OUT & set(relative.parts[:-1]) or relative.name in LEFT_OUT:
                continue
            member = tarfile.TarInfo(f"{run.name}/{relative}")
            member.mode = 0o755 if path.is_dir() else 0o644
            if path.is_dir():
                member.type = tarfile.DIRTYPE
                tar.addfile(member)
                continue
            data = clean(path.read_bytes(), pairs, path.name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    beside.replace(target)


def refresh(name: str, target: Path, way: tuple[str, ...] = ()) -> None:
    inspector = [sys.executable, "-m", "inspector.cli"]
    story = name in (*STORIES, *GPU_STORIES)
    with TemporaryDirectory() as folder:
        run = Path(folder).resolve() / name
        program = target.parent / f"{name}.py"
        options = [*(["--baseline"] if story else []), *way]
        command = [*inspector, "capture", *options, "-o", str(run), "--", sys.executable, str(program)]
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


if __name__ == "__main__":
    main()
