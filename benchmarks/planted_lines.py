"""Whether constants planted in lines of a program stand where the map from instructions to lines says.

    python benchmarks/planted_lines.py OUT [-v]

`programs/planted_lines.py` has one constant in each line that no other line has. Its functions are compiled
for the CPU (``capture --asm``) and, without a GPU, to Triton kernels for an H200, which are lowered here. In
every stage the instructions that compute with a constant are looked up, through the registers that it was
moved to, and the map is asked for their lines. -v names those that are wrong. Five minutes.
"""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from constants_below import Key, Witness, compilers_own, float_key, judged, library_data

HERE = Path(__file__).parent
PROGRAM = HERE / "programs" / "planted_lines.py"


def planted() -> dict[Key, frozenset[int]]:
    """Every constant of the functions -> its line; of a divisor its reciprocal too, which Inductor takes."""
    result: dict[Key, set[int]] = {}
    tree = ast.parse(PROGRAM.read_text())
    for function in (
        each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name != "inputs"
    ):
        for node in ast.walk(function):
            if isinstance(node, ast.Constant) and isinstance(node.value, float):
                for value in (node.value, 1 / node.value):
                    result.setdefault(float_key(value), set()).add(node.lineno)
            elif isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value > 1000:
                result.setdefault(("int", node.value), set()).add(node.lineno)
    return {key: frozenset(lines) for key, lines in result.items()}


def without_gpu() -> None:
    """Generates the program's Triton kernels for an H200 into torch's debug folder here: the tensors are
    fakes, and what asks for a device gets an H200's properties (triton_meta)."""
    import torch
    import torch._dynamo.device_interface as interface
    import torch._inductor.codecache as codecache
    import torch._inductor.config as config
    import torch._inductor.fx_passes.joint_graph as joint
    import torch._inductor.fx_passes.post_grad as post
    import torch.utils._triton as hashes
    from torch._subclasses.fake_tensor import FakeTensorMode
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    class Properties:
        name, gcnArchName = "NVIDIA H200", ""
        major, minor, warp_size, multi_processor_count = 9, 0, 32, 132
        max_threads_per_multi_processor, max_threads_per_block = 2048, 1024
        regs_per_multiprocessor, shared_memory_per_block_optin = 65536, 232448
        shared_memory_per_multiprocessor, L2_cache_size, total_memory = 233472, 50 << 20, 141 << 30
        is_integrated = is_multi_gpu_board = 0

    class Driver:
        def get_current_target(self) -> Any:
            return GPUTarget("cuda", 90, 32)

    class Generated(Exception):
        """The code is written; it cannot be run."""

    def stop(*_: object, **__: object) -> None:
        raise Generated

    cuda: Any = torch.cuda
    for name, value in {
        "is_available": True, "device_count": 1, "current_device": 0, "get_device_capability": (9, 0),
        "is_bf16_supported": True, "get_device_name": "NVIDIA H200", "synchronize": None,
        "set_rng_state": None, "get_rng_state": torch.zeros(16, dtype=torch.uint8),
        "get_device_properties": Properties(), "_exchange_device": 0, "_maybe_exchange_device": 0,
    }.items():  # fmt: skip
        setattr(cuda, name, lambda *_, _value=value: _value)
    for each in (interface.CudaInterface, interface.CudaInterface.Worker):
        each.get_device_properties = staticmethod(lambda *_: Properties())
    hashes.triton_hash_with_backend = lambda: "none"
    driver.set_active(Driver())
    # Their patterns are traced with tensors of the device.
    joint.lazy_init, post.lazy_init = (lambda *_: None), (lambda *_: None)
    codecache.PyCodeCache.load_by_key_path = stop
    config.force_disable_caches, config.joint_graph_constant_folding, config.compile_threads = True, False, 1
    sys.path.insert(0, str(PROGRAM.parent))
    program: Any = importlib.import_module("planted_lines")

    assert Path(program.__file__) == PROGRAM
    for function in program.FUNCTIONS:
        torch._dynamo.reset()
        try:
            with FakeTensorMode():
                torch.compile(function)(program.inputs(function, "cuda"))
        except Exception as error:
            if "Generated" not in repr(error):
                raise


def check(root: Path, made: Path | None, verbose: bool) -> Witness:
    from inspector.lowered import lowered_kernels
    from inspector.readers.run import Run

    run, truth, witness = Run.open(root), planted(), Witness()
    libraries = {}
    for path in root.glob("cache/inductor/*/*.so"):
        dump = subprocess.run(["objdump", "-s", "-j", ".rodata", str(path)], capture_output=True, text=True)
        source = path.with_suffix(".cpp")
        libraries[source.read_text() if source.is_file() else ""] = library_data(path, dump.stdout)
    for graph in run.graphs:
        fx = graph.fx("transformed")
        nodes = {node.name: node.text for node in fx.nodes} if fx is not None else {}
        for item in lowered_kernels(run, [graph], made=made):
            body = item.kernel.source.strip()
            data = next((own for text, own in libraries.items() if body in text), lambda _: b"")
            owners = {
                key: frozenset(name for name in item.lines.every if _has(nodes.get(name, ""), key))
                for key in truth
            }
            for stage in item.stages:
                for key, word, row in judged(item, stage, truth, owners, nodes, data):
                    missed = word in ("wrong", "open")
                    witness.add(stage.name, key, word, missed and compilers_own(item, stage, row, key))
                    if verbose and missed:
                        origin = item.origin(stage.places[row])
                        lines = sorted(place.line for place in origin.sources) if origin is not None else []
                        print(
                            f"    {stage.name} {word} {sorted(truth[key])} {lines} {stage.lines[row].strip()}"
                        )
    return witness


def _has(text: str, key: Key) -> bool:
    """Whether an FX node's text has a number."""
    import re

    numbers = re.findall(r"(?<![\w.%])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])", text)
    return any(key in (float_key(float(number)), ("int", int(float(number)))) for number in numbers if number)


def main() -> None:
    out = Path(sys.argv[1]).absolute()
    if sys.argv[2:] == ["--generate"]:
        os.chdir(out)
        without_gpu()
        return
    out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "inspector"]
    gpu, cpu, made = out / "h200", out / "cpu.run", out / "lowered"
    if not gpu.exists():
        gpu.mkdir()
        environment = {**os.environ, "TORCH_COMPILE_DEBUG": "1"}
        subprocess.run([sys.executable, __file__, str(gpu), "--generate"], check=True, env=environment)
    if not cpu.exists():
        capture = [*command, "capture", "--asm", "-q", "-o", str(cpu), "--", sys.executable, str(PROGRAM)]
        subprocess.run(capture, check=True)
    from inspector.lowered import lowered_kernels
    from inspector.readers.run import Run
    from inspector.replay.lowering import lower_job, lower_kernels

    if not made.exists():
        run = Run.open(gpu)
        jobs = [job for item in lowered_kernels(run, run.graphs) if (job := lower_job(item)) is not None]
        result = lower_kernels(jobs, made)
        print(f"{len(result.keys)} of {len(jobs)} Triton kernels lowered", *result.problems.values())
    verbose = "-v" in sys.argv
    print(f"Triton, for an H200\n{check(gpu, made, verbose)}")
    print(f"C++\n{check(cpu, None, verbose)}")


if __name__ == "__main__":
    main()
