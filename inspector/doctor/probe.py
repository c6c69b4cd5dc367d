"""Gathers facts about an interpreter, its torch and its machine; run as a program with that interpreter.

Arguments: a request file, JSON: `out` (file to append to), `sections` (names, in order), `cache_dir` (the
user's TORCHINDUCTOR_CACHE_DIR or null), `scratch` (an empty folder), `names` (variables to look up in
torch's sources). Writes one JSON object a line: {"begin": name}, then {"section": name, "facts": {...}}.

Any interpreter from Python 3.9 on may run this, with any torch or none, so: standard library and torch only,
and every section is on its own. What a section can't find out is left out of its facts, or is None.
"""

from __future__ import annotations

import glob
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

FactsOf = dict[str, Any]

TRITON_NAMES = ("triton", "pytorch-triton", "pytorch-triton-rocm", "pytorch-triton-xpu", "triton-windows")
SMI_SECONDS = 15.0
BUILD_SECONDS = 60.0
ERROR_CHARACTERS = 20_000
COUNT_LIMIT = 20_000  # A cache with more entries than this is not counted to the end.

_NAME = re.compile(rb"\b(?:TORCHINDUCTOR|TORCHDYNAMO|TORCH_COMPILE)_[A-Z0-9_]+")

PROGRAM = """
#include <type_traits>
#ifdef _OPENMP
#include <omp.h>
#else
int omp_get_max_threads() { return 1; }
#endif
template <typename T> int check() { if constexpr (std::is_same_v<T, int>) return 0; else return 1; }
int main() { return omp_get_max_threads() < 1 || check<int>(); }
"""
"""C++17, calling OpenMP where it is switched on; exit code 0."""


def attempt(function: Callable[[], Any]) -> Any:
    """The function's value; None where it raises: torch moves its private functions about."""
    try:
        return function()
    except Exception:
        return None


def error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]


def said(words: list[str], seconds: float) -> tuple[str | None, str]:
    """Why a command failed, or None; and what it printed. `seconds` is its time limit."""
    name = os.path.basename(words[0])
    try:
        answer = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return f"{name} did not finish within {seconds:g} s", ""
    except OSError as error:
        return f"{name}: {error.strerror or error}", ""
    text = answer.stdout.decode("utf-8", "replace").strip()[:ERROR_CHARACTERS]
    return (text or f"{name}: exit code {answer.returncode}") if answer.returncode else None, text


def place_of(error: BaseException) -> str | None:
    """Where the innermost error was raised, as `metrics.py:184 in add_row`."""
    while True:
        # torch/_inductor/exc.py: InductorError wraps what Inductor raised.
        inner = getattr(error, "inner_exception", None) or error.__cause__
        if not isinstance(inner, BaseException) or inner.__traceback__ is None:
            break
        error = inner
    frames = traceback.extract_tb(error.__traceback__)
    return (
        f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno} in {frames[-1].name}"
        if frames
        else None
    )


# -- without torch


def python(_: FactsOf) -> FactsOf:
    return {
        "version": platform.python_version(),
        "executable": sys.executable,
        "free_threaded": sysconfig.get_config_var("Py_GIL_DISABLED") == 1,
        "system": platform.system(),
        "machine": platform.machine(),
        "cpus": attempt(lambda: len(os.sched_getaffinity(0))) or os.cpu_count(),
    }


def packages(_: FactsOf) -> FactsOf:
    """Versions as installed, nothing imported; `requires_triton`: name and version that torch asks for."""
    facts: FactsOf = {
        "torch": attempt(lambda: importlib.metadata.version("torch")),
        "torch_found": attempt(lambda: importlib.util.find_spec("torch")) is not None,
        "triton": None,
        "triton_package": None,
        "requires_triton": None,
    }
    for name in TRITON_NAMES:
        with suppress(importlib.metadata.PackageNotFoundError):
            facts["triton"], facts["triton_package"] = importlib.metadata.version(name), name
            break
    for line in attempt(lambda: importlib.metadata.requires("torch")) or ():
        match = re.match(r"((?:pytorch-)?triton(?:-\w+)?)\s*\(?==\s*([^;,)\s]+)", line)
        if match and "extra ==" not in line:
            facts["requires_triton"] = [match[1], match[2]]
    return facts


def nvidia_smi(_: FactsOf) -> FactsOf:
    """The GPUs that the driver knows, whatever torch makes of them. Old drivers don't know `compute_cap`."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {"found": False, "gpus": []}
    facts: FactsOf = {"found": True, "gpus": []}
    for fields in ("name,driver_version,compute_cap", "name,driver_version"):
        failure, text = said([program, f"--query-gpu={fields}", "--format=csv,noheader"], SMI_SECONDS)
        if failure is None:
            facts.pop("error", None)
            for line in filter(None, text.splitlines()):
                name, driver, *rest = (cell.strip() for cell in line.split(","))
                facts["gpus"].append(
                    {"name": name, "driver": driver, "capability": rest[0] if rest else None}
                )
            break
        facts["error"] = failure
    return facts


# -- with torch


def torch_itself(_: FactsOf) -> FactsOf:
    begin = time.perf_counter()
    import torch

    facts: FactsOf = {
        "seconds": time.perf_counter() - begin,
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "threads": torch.get_num_threads(),
        "cpu_capability": attempt(lambda: torch.backends.cpu.get_cpu_capability()),
        "matmul_precision": attempt(torch.get_float32_matmul_precision),
    }
    from torch._dynamo.eval_frame import check_if_dynamo_supported

    try:
        check_if_dynamo_supported()
    except Exception as error:
        facts["unsupported"] = str(error)
    return facts


def gpu(_: FactsOf) -> FactsOf:
    """CUDA or ROCm devices as torch sees them, and torch's own words where it sees none."""
    import torch

    facts: FactsOf = {"available": False, "devices": [], "architectures": []}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        facts["available"] = bool(torch.cuda.is_available())
        if torch.version.cuda or torch.version.hip:
            facts["architectures"] = list(attempt(torch.cuda.get_arch_list) or ())
            if not facts["available"]:
                try:
                    torch.cuda.init()
                except Exception as error:
                    facts["error"] = str(error)[:ERROR_CHARACTERS]
        if facts["available"]:
            for index in range(torch.cuda.device_count()):
                facts["devices"].append(_device(torch, index))
    facts["warnings"] = list(dict.fromkeys(str(item.message)[:1000] for item in caught))
    return facts


def _device(torch: Any, index: int) -> FactsOf:
    properties = torch.cuda.get_device_properties(index)

    def big() -> bool:
        from torch._inductor.utils import is_big_gpu

        return bool(is_big_gpu(index))

    return {
        "name": properties.name,
        "capability": [properties.major, properties.minor],
        "multiprocessors": properties.multi_processor_count,
        "memory": properties.total_memory,
        "big": attempt(big),
    }


def triton(_: FactsOf) -> FactsOf:
    """Whether Triton can be imported, and what it and torch say about each other."""
    facts: FactsOf = {"version": None, "backends": []}
    try:
        import triton as package

        facts["version"] = str(package.__version__)
        import triton.backends

        facts["backends"] = sorted(triton.backends.backends)
    except ImportError as error:
        facts["missing" if facts["version"] is None else "error"] = error_text(error)
    except Exception as error:
        facts["error"] = error_text(error)
    from torch.utils._triton import has_triton

    facts["has_triton"] = attempt(lambda: bool(has_triton()))
    return facts


def names(request: FactsOf) -> FactsOf:
    """Which variables this torch's sources know, of the prefixes that are Inductor's and Dynamo's."""
    if not request["names"]:
        return {"known": None}
    import torch

    root = os.path.dirname(torch.__file__)
    known: set[bytes] = set()
    for package in ("_inductor", "_dynamo", "_functorch", "_logging", "compiler", "utils"):
        for path in glob.iglob(os.path.join(root, package, "**", "*.py"), recursive=True):
            with suppress(OSError), open(path, "rb") as file:
                known.update(_NAME.findall(file.read()))
    return {"known": sorted(name.decode() for name in known)}


def caches(request: FactsOf) -> FactsOf:
    """The user's own compile cache, left as it is: the probe's compilations use another one."""
    folder = request["cache_dir"] or attempt(_default_cache_dir)
    facts: FactsOf = {"folder": folder}
    facts.update(_switches())
    if folder is None:
        return facts
    folder = facts["folder"] = os.path.abspath(folder)
    existing = folder
    while not os.path.exists(existing) and os.path.dirname(existing) != existing:
        existing = os.path.dirname(existing)
    facts["exists"] = existing == folder
    facts["writable"] = os.path.isdir(existing) and os.access(existing, os.W_OK | os.X_OK)
    facts["free_bytes"] = attempt(lambda: shutil.disk_usage(existing).free)
    facts["noexec"] = bool(attempt(lambda: os.statvfs(existing).f_flag & os.ST_NOEXEC))
    # torch/_inductor/codecache.py: fxgraph/ab/KEY; AOT autograd's is aotautograd/KEY.
    facts["fx_graphs"] = _count(os.path.join(folder, "fxgraph"), 2)
    facts["aot_graphs"] = _count(os.path.join(folder, "aotautograd"), 1)
    return facts


def _default_cache_dir() -> str:
    try:
        from torch._inductor.runtime.cache_dir_utils import default_cache_dir
    except ImportError:
        from torch._inductor.runtime.runtime_utils import default_cache_dir
    return str(default_cache_dir())


def _switches() -> FactsOf:
    from torch._functorch import config as functorch
    from torch._inductor import config

    return {
        "fx_graph_cache": attempt(lambda: bool(config.fx_graph_cache)),
        "autograd_cache": attempt(lambda: bool(functorch.enable_autograd_cache)),
        "disabled": attempt(lambda: bool(config.force_disable_caches)),
    }


def _count(folder: str, depth: int) -> int:
    """Folders `depth` levels below `folder`, at most COUNT_LIMIT."""
    level = [folder]
    for _ in range(depth):
        below: list[str] = []
        for parent in level:
            with suppress(OSError), os.scandir(parent) as entries:
                below.extend(entry.path for entry in entries if entry.is_dir())
            if len(below) >= COUNT_LIMIT:
                break
        level = below
    return min(len(level), COUNT_LIMIT)


def compiler(request: FactsOf) -> FactsOf:
    """Inductor's C++ compiler, tried on a small program; Triton's C compiler; Python's headers."""
    include = sysconfig.get_path("include")
    facts: FactsOf = {
        "found": {name: shutil.which(name) for name in ("g++", "clang++", "c++")},
        "c_compiler": os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang"),
        "include": include,
        "headers": os.path.isfile(os.path.join(include, "Python.h")),
        "standard": "c++17",
        "chosen": None,
    }
    try:
        from torch._inductor.cpp_builder import get_cpp_compiler

        facts["chosen"] = str(get_cpp_compiler())
    except Exception as error:
        facts["error"] = error_text(error)
        return facts

    def standard() -> str:
        from torch._inductor.cpp_builder import _get_cpp_std_cflag

        return str(_get_cpp_std_cflag()[0]).split("=")[1]

    facts["standard"] = attempt(standard) or facts["standard"]
    failure, text = said([facts["chosen"], "--version"], BUILD_SECONDS)
    if failure is None:
        facts["version"] = text.partition("\n")[0]
    if os.name == "posix":
        facts.update(_trial(facts["chosen"], facts["standard"], request["scratch"]))
    return facts


def _trial(program: str, standard: str, scratch: str) -> FactsOf:
    """Builds and runs PROGRAM with OpenMP, and without it where that fails, to know what is to blame.

    On macOS OpenMP comes from wherever torch finds it (torch/_inductor/cpp_builder.py: _get_openmp_args), so
    there only the compilation for real can tell.
    """
    folder = tempfile.mkdtemp(dir=scratch)
    source, binary = os.path.join(folder, "trial.cpp"), os.path.join(folder, "trial")
    with open(source, "w") as file:
        file.write(PROGRAM)
    facts: FactsOf = {"openmp": None}
    if sys.platform != "darwin":
        failure = _build(program, ["-fopenmp"], standard, source, binary)
        facts["openmp"] = failure is None
        if failure is None:
            facts["builds"] = True
            return facts
        facts["openmp_error"] = failure
    failure = _build(program, [], standard, source, binary)
    facts["builds"] = failure is None
    if failure is not None:
        facts["build_error"] = failure
    return facts


def _build(program: str, flags: list[str], standard: str, source: str, binary: str) -> str | None:
    """None where the program builds and runs, else what the compiler or the program said."""
    command = [program, f"-std={standard}", "-O1", *flags, source, "-o", binary]
    return said(command, BUILD_SECONDS)[0] or said([binary], BUILD_SECONDS)[0]


def vectors(_: FactsOf) -> FactsOf:
    """What Inductor takes; it compiles and loads a test for each instruction set, which takes seconds."""
    from torch._inductor import config

    facts: FactsOf = {"simdlen": config.cpp.simdlen}
    try:
        from torch._inductor.cpu_vec_isa import pick_vec_isa
    except ImportError:
        from torch._inductor.codecache import pick_vec_isa
    chosen = pick_vec_isa()
    facts.update(name=str(chosen), bits=int(chosen.bit_width()))
    return facts


def compile_cpu(request: FactsOf) -> FactsOf:
    return _compile("cpu", request)


def compile_gpu(request: FactsOf) -> FactsOf:
    return _compile("cuda", request)


def _compile(device: str, request: FactsOf) -> FactsOf:
    """Compiles a pointwise function, and tells by Inductor's own counters whether it really did."""
    import torch
    import torch._inductor.metrics as metrics
    from torch._dynamo.utils import counters

    def small(x: Any) -> Any:
        return torch.relu(x * 2.0 - 1.0) + x

    torch._dynamo.reset()
    counters.clear()
    kernels, vectorised = metrics.generated_kernel_count, metrics.generated_cpp_vec_kernel_count
    debug = os.path.join(request["scratch"], "torch_compile_debug")
    before = set(_artifacts(debug))
    facts: FactsOf = {"device": device}
    begin = time.perf_counter()
    try:
        x = torch.linspace(-2.0, 2.0, 4096, device=device)
        begin = time.perf_counter()
        result = torch.compile(small)(x)
        if device == "cuda":
            torch.cuda.synchronize()
    except Exception as error:
        facts["error"], facts["place"] = error_text(error), place_of(error)
    else:
        facts["seconds"] = time.perf_counter() - begin
        expected = small(x)
        facts["error_size"] = float((result - expected).abs().max())
        facts["right"] = bool(torch.allclose(result, expected, rtol=1.3e-6, atol=1e-5))
    facts["graphs"] = int(counters["stats"]["unique_graphs"])
    facts["kernels"] = metrics.generated_kernel_count - kernels
    facts["vectorised"] = metrics.generated_cpp_vec_kernel_count - vectorised
    facts["artifacts"] = sorted({os.path.basename(path) for path in set(_artifacts(debug)) - before})
    return facts


def _artifacts(debug: str) -> list[str]:
    """The files of compiled graphs: torch_compile_debug/run_*/torchinductor/model__*/NAME."""
    return glob.glob(os.path.join(debug, "run_*", "torchinductor", "model__*", "*"))


SECTIONS: dict[str, Callable[[FactsOf], FactsOf]] = {
    "python": python,
    "packages": packages,
    "nvidia_smi": nvidia_smi,
    "torch": torch_itself,
    "gpu": gpu,
    "triton": triton,
    "names": names,
    "caches": caches,
    "compiler": compiler,
    "vectors": vectors,
    "compile_cpu": compile_cpu,
    "compile_gpu": compile_gpu,
}
"""In the order in which they run. What follows `torch` needs it."""


def main(path: str) -> int:
    """Run the request's sections; without torch, or without a GPU, those that need one are left out."""
    with open(path, encoding="utf-8") as file:
        request = json.load(file)
    with open(request["out"], "a", encoding="utf-8") as out:

        def say(event: FactsOf) -> None:
            out.write(json.dumps(event) + "\n")
            out.flush()

        left_out: set[str] = set()
        for name in request["sections"]:
            if name in left_out:
                continue
            say({"begin": name})
            try:
                facts = SECTIONS[name](request)
            except Exception as error:
                facts = {"failure": error_text(error)}
            say({"section": name, "facts": facts})
            if name == "torch" and "failure" in facts:
                break
            if name == "gpu" and not facts.get("available"):
                left_out.add("compile_gpu")
        say({"end": True})
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1])
    sys.stdout.flush()
    # Not an ordinary exit: Inductor's worker pools and CUDA's clean-up may hang on the way out.
    os._exit(code)
