"""Programs of programs/natural/*_blind as they are, in eager, and with what explain first advised for them.

    python benchmarks/advised.py OUT.jsonl [--only NAME,NAME] [--rounds 5] [--calls 20] [--jobs 2]

Of a program with a `main` each round is one more of it, told by the figure that it prints itself.

A way is a change of lines, of settings of torch._inductor.config, or an operator left to ATen. Each way of
a program has a process of its own, which does the program's last loop until it is compiled; when all are
ready they are timed in turns. A JSON line has each one's median call in milliseconds, with the lowest and
highest of the rounds.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
NATURAL = HERE / "programs" / "natural"
KEPT = "{0} = {0}.as_strided({0}.size(), {0}.stride())"
"""What makes torch keep a value in memory."""
LAST = ".to(memory_format=torch.channels_last{})"
IN_CUSTOM_OP = """
@torch.library.custom_op("blind::whole", mutates_args=())
def whole(x: torch.Tensor, size: list[int]) -> torch.Tensor:
    return F.interpolate(x, size=size, mode="bilinear", align_corners=False)


@whole.register_fake
def _(x, size):
    return x.new_empty(x.shape[:2] + tuple(size))


"""
TWO_STEPS = """parts = snr.view(snr.shape[0], 2048, -1)
    first, at = parts.max(-1)
    peak, part = first.max(1)
    where = part * parts.shape[2] + at.gather(1, part[:, None])[:, 0]"""

CUDA_GRAPHS = (("triton.cudagraphs", True),)
COOPERATIVE = (("triton.cooperative_reductions", True),)
UNSPECIALISED = """import torch._dynamo
torch._dynamo.config.allow_unspec_int_on_nn_module = True
"""
MEDIAN = (
    "(win - med[..., None]).abs().median(-1).values",
    "(win - med[..., None]).abs().sort(-1).values[..., (win.shape[-1] - 1) // 2]",
)
"""The same element: torch's median is the lower of two."""


@dataclass(frozen=True)
class Way:
    """`lines`: pairs of a text of the program and what it becomes."""

    lines: tuple[tuple[str, str], ...] = ()
    config: tuple[tuple[str, object], ...] = ()
    whole: tuple[str, ...] = ()
    in_place: bool = False


def kept(line: str, name: str) -> Way:
    """The value that a line makes is kept in memory."""
    indent = line[: len(line) - len(line.lstrip())]
    return Way(((line, f"{line}\n{indent}{KEPT.format(name)}"),))


WAYS = {
    "hdr_preview": {"kept": kept("    encoded = pq(frames * gain)", "encoded")},
    "spectral_library_match": {"kept": kept("    w = spec**0.53 * mz**1.3", "w")},
    "gravwave_search": {
        "two steps": Way((("peak, where = snr.max(dim=1)", TWO_STEPS),)),
        "cooperative_reductions": Way(config=COOPERATIVE),
    },
    "replk_segment": {"layout_optimization=False": Way(config=(("layout_optimization", False),))},
    "stereo_cost_volume": {"in place": Way(in_place=True)},
    "asian_basket": {"fallback_random": Way(config=(("fallback_random", True),))},
    "dct_patch_denoise": {
        "TF32": Way((("import torch\n", "import torch\n\ntorch.set_float32_matmul_precision('high')\n"),)),
        "col2im left to ATen": Way(whole=("aten.col2im",)),
    },
    "tidal_harmonics": {"float32": Way((("torch.float64", "torch.float32"),))},
    "ct_vnet_decoder": {
        "channels_last_3d": Way(
            (
                ("Decoder().to(dev).eval()", f"Decoder().to(dev).eval(){LAST.format('_3d')}"),
                ("base, base, base, device=dev)", f"base, base, base, device=dev){LAST.format('_3d')}"),
                ("* 3, device=dev)", f"* 3, device=dev){LAST.format('_3d')}"),
            )
        ),
        "force_layout_optimization": Way(config=(("force_layout_optimization", True),)),
    },
    "depth_decoder_train": {
        "channels_last": Way(
            (
                ("DepthDecoder().to(dev)", f"DepthDecoder().to(dev){LAST.format('')}"),
                ("w * 2**i, device=dev)", f"w * 2**i, device=dev){LAST.format('')}"),
            )
        ),
        "force_layout_optimization": Way(config=(("force_layout_optimization", True),)),
    },
    "volume_render": {"cudagraphs": Way(config=CUDA_GRAPHS)},
    "radar_cube": {"cudagraphs": Way(config=CUDA_GRAPHS)},
    "lbm_channel": {"cudagraphs": Way(config=CUDA_GRAPHS)},
    "massspec_gain": {"cooperative_reductions": Way(config=COOPERATIVE)},
    "rolling_risk": {"sorted": Way((MEDIAN,))},
    "srp_localise": {"cooperative_reductions": Way(config=COOPERATIVE)},
    "spline_raster": {
        "float32": Way(
            (
                ("SAMPLES).to(DEVICE)", "SAMPLES).to(DEVICE).float()"),
                (
                    "torch.from_numpy(target_image(SIZE)).to(DEVICE)",
                    "torch.from_numpy(target_image(SIZE)).to(DEVICE).float()",
                ),
            )
        )
    },
    "replay_pixels": {
        "static": Way(
            (
                (
                    "    buf = Replay(CAPACITY, DEVICE)\n",
                    "    buf = Replay(CAPACITY, DEVICE)\n"
                    "    for kept in (buf.obs, buf.action, buf.reward, buf.next_obs, buf.done):\n"
                    "        torch._dynamo.mark_static_address(kept)\n",
                ),
            )
        )
    },
    "sign_keypoints": {
        "cudagraphs": Way((("torch.compile(model)", 'torch.compile(model, mode="reduce-overhead")'),))
    },
    "sae_features": {"int": Way((("import torch\n", f"import torch\n{UNSPECIALISED}"),))},
    "hifigan_vocode": {
        "few sizes": Way(
            (("synthetic_mel(rng, int(frames))", "synthetic_mel(rng, -(-int(frames) // 128) * 128)"),)
        )
    },
    "copula_loss": {"fallback_random": Way(config=(("fallback_random", True),))},
    "coronal_conduction": {"kept": kept("        kappa = conductivity(temp, density)", "kappa")},
    "hrnet_fuse": {
        "a custom operator": Way(
            (
                ("class FuseHead", IN_CUSTOM_OP + "class FuseHead"),
                ('F.interpolate(m, size=size, mode="bilinear", align_corners=False)', "whole(m, list(size))"),
            )
        )
    },
    "lid_cavity": {"in place": Way(in_place=True)},
    "involution_train": {"im2col left to ATen": Way(whole=("aten.im2col", "aten.col2im"))},
}


def changed(path: Path, way: Way) -> str:
    text = path.read_text()
    for before, after in way.lines:
        assert before in text, f"{path.stem}: {before}"
        text = text.replace(before, after)
    return text


def module_of(path: Path) -> dict[str, Any]:
    """Dynamo looks a function's globals up in its module."""
    module = sys.modules["program"] = ModuleType("program")
    module.__dict__.update(__name__="program", __file__=str(path))
    return module.__dict__


def own_figure(path: Path, text: str) -> Callable[[], float]:
    """The milliseconds that a run of `main` says."""
    names = module_of(path)
    exec(compile(text, str(path), "exec"), names)

    def run() -> float:
        with redirect_stdout(StringIO()) as said:
            names["main"]()
        return float(re.findall(r"([\d.]+) ms", said.getvalue())[-1])

    return run


def once(path: Path, text: str) -> Callable[[], object]:
    """What the program's last loop does in a round; all that stands before it has run."""
    body = ast.parse(text).body
    at = max(
        number
        for number, node in enumerate(body)
        if any(isinstance(item, ast.For) for item in ast.walk(node))
    )
    last = body[at]
    loop = next(item for item in ast.walk(last) if isinstance(item, ast.For))
    names = module_of(path)
    exec(compile(ast.Module(body[:at], []), str(path), "exec"), names)
    index = loop.target.id if isinstance(loop.target, ast.Name) else "_"
    names[index] = 0
    # What holds the loop, as torch.no_grad(), holds each of its rounds.
    whole: ast.stmt = last
    if whole is loop:
        code = ast.Module(loop.body, [])
    else:
        assert isinstance(last, ast.With)
        last.body = loop.body
        code = ast.Module([last], [])
    compiled = compile(ast.fix_missing_locations(code), str(path), "exec")
    return lambda: exec(compiled, names)


def child(path: Path, way: Way, calls: int) -> None:
    """Answers each line on standard input with the median of so many calls."""
    import torch

    from inspector.capture.bootstrap.sitecustomize import keep_in_place, keep_whole

    for name, value in way.config:
        owner, _, setting = name.rpartition(".")
        target = torch._inductor.config
        setattr(getattr(target, owner) if owner else target, setting, value)
    for name in way.whole:
        keep_whole(torch, name)
    if way.in_place:
        keep_in_place()
    text = changed(path, way)
    if re.search(r"^def main\(", text, re.M):
        figure = own_figure(path, text)
        figure()
        print("ready", flush=True)
        for _ in sys.stdin:
            print(figure(), flush=True)
        return
    call = once(path, text)
    gpu = "gpu_blind" in str(path)
    for _ in range(6):
        call()
    print("ready", flush=True)
    for _ in sys.stdin:
        times = []
        for _ in range(calls):
            begun = time.perf_counter()
            call()
            if gpu:
                torch.cuda.synchronize()
            times.append((time.perf_counter() - begun) * 1e3)
        print(statistics.median(times), flush=True)


def started(name: str, way: str, calls: int) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH", "")])),
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
    }
    if way == "eager":
        environment["TORCH_COMPILE_DISABLE"] = "1"
    command = [sys.executable, __file__, "--child", name, way, "--calls", str(calls)]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.PIPE, text=True
    )


def answer(process: subprocess.Popen[str]) -> str:
    """The next line that is one of ours; empty where the process has ended."""
    assert process.stdout is not None
    while line := process.stdout.readline():
        if line.strip() == "ready" or line.strip().replace(".", "", 1).isdigit():
            return line.strip()
    return ""


def timed(name: str, rounds: int, calls: int) -> dict[str, object]:
    children = {way: started(name, way, calls) for way in ("eager", "compiled", *WAYS[name])}
    times: dict[str, list[float]] = {
        way: [] for way, process in children.items() if answer(process) == "ready"
    }
    for _ in range(rounds):
        for way in times:
            stdin = children[way].stdin
            assert stdin is not None
            stdin.write("go\n")
            stdin.flush()
            times[way].append(float(answer(children[way]) or "nan"))
    failed = {}
    for way, process in children.items():
        _, errors = process.communicate(timeout=60)
        if way not in times:
            failed[way] = errors.strip().rsplit("\n", 1)[-1][:300]
    said = {
        way: [round(item, 4) for item in (statistics.median(ms), min(ms), max(ms))]
        for way, ms in times.items()
    }
    return {"program": name, "ms": said, "failed": failed}


def path_of(name: str) -> Path:
    return next(NATURAL.glob(f"*_blind/{name}.py"))


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--child", nargs=2)
    options = parser.parse_args(arguments)
    if options.child:
        name, way = options.child
        child(path_of(name), WAYS[name].get(way, Way()), options.calls)
        return
    names = [name for name in WAYS if not options.only or name in options.only.split(",")]
    with ThreadPoolExecutor(options.jobs) as pool, options.out.open("a") as out:
        for row in pool.map(lambda name: timed(name, options.rounds, options.calls), names):
            out.write(json.dumps(row) + "\n")
            out.flush()
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
