"""Where a replay runs: what the child inherits of this process's environment, and the machine's own facts."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

import psutil

from inspector import confinement
from inspector.files import cache_folder
from inspector.hardware.host import cpu_name
from inspector.replay.protocol import ReplayOptions

_DROPPED_PREFIXES = ("TORCH_COMPILE_DEBUG", "TORCH_LOGS", "TORCH_TRACE", "TORCHINDUCTOR_", "TORCHDYNAMO_")
"""Settings that make torch write debug files, move its caches or change what it generates."""

_DROPPED = frozenset({"TRITON_CACHE_DIR", "TRITON_DUMP_DIR", "TRITON_KERNEL_DUMP", "TRITON_ALWAYS_COMPILE"})

_KEPT = frozenset({"TORCHINDUCTOR_COMPILE_THREADS", "TORCHINDUCTOR_VEC_ISA_OK"})
"""Of the machine's compiler: its processes, and that it need not be tried with each set of vectors."""


DECIDING = frozenset(
    {
        "ATEN_CPU_CAPABILITY", "CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE",
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "DNNL_DEFAULT_FPMATH_MODE", "DNNL_MAX_CPU_ISA",
        "GOMP_CPU_AFFINITY", "GOMP_SPINCOUNT", "KMP_AFFINITY", "KMP_BLOCKTIME", "MALLOC_ARENA_MAX",
        "MALLOC_TRIM_THRESHOLD_", "MKL_CBWR", "MKL_DEBUG_CPU_TYPE", "MKL_DYNAMIC", "MKL_ENABLE_INSTRUCTIONS",
        "MKL_NUM_THREADS", "NVIDIA_TF32_OVERRIDE", "OMP_DYNAMIC", "OMP_NUM_THREADS", "OMP_PLACES",
        "OMP_PROC_BIND",
        "OMP_SCHEDULE", "OMP_WAIT_POLICY", "ONEDNN_DEFAULT_FPMATH_MODE", "ONEDNN_MAX_CPU_ISA",
        "OPENBLAS_NUM_THREADS", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TORCH_BLAS_PREFER_CUBLASLT", "TORCH_CUDNN_V8_API_DISABLED",
        "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT",
    }
)  # fmt: skip
"""Variables that decide which kernels run, with which threads and memory: set in the child as they were in
the run, and unset where they were not set there. None of them names a file to load or to write."""


def child_environment(
    cache: Path,
    options: ReplayOptions,
    environ: Mapping[str, str] | None = None,
    captured: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """This process's environment without what would make torch log, dump or use another cache, `DECIDING` as
    in `captured` where that is known.

    `cache` becomes Inductor's and Triton's cache folder. ``cuda:N`` in the options becomes
    CUDA_VISIBLE_DEVICES, counted among the devices that are visible now.
    """
    environ = os.environ if environ is None else environ
    result = {
        key: value
        for key, value in environ.items()
        if key in _KEPT or not (key.startswith(_DROPPED_PREFIXES) or key in _DROPPED)
    }
    if captured is not None:
        result = {key: value for key, value in result.items() if key not in DECIDING}
        result |= {key: value for key, value in captured.items() if key in DECIDING}
    result["TORCHINDUCTOR_CACHE_DIR"] = str(cache / "inductor")
    result["TRITON_CACHE_DIR"] = str(cache / "triton")
    result.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(min(8, os.cpu_count() or 1)))
    # A crash then leaves its Python stack in the child's log.
    result["PYTHONFAULTHANDLER"] = "1"
    if options.device and options.device.startswith("cuda:"):
        index = options.device.removeprefix("cuda:")
        visible = [item for item in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if item]
        result["CUDA_VISIBLE_DEVICES"] = (
            visible[int(index)] if index.isdigit() and int(index) < len(visible) else index
        )
    return result


_ON_GPU = re.compile(r"device='cuda|\bempty_strided_cuda\(")


def uses_gpu(code: Path, options: ReplayOptions) -> bool:
    """Whether replaying the generated code takes a GPU: it is for one, and there is one."""
    if options.device == "cpu" or not confinement.has_gpu():
        return False
    return _ON_GPU.search(code.read_text(encoding="utf-8", errors="replace")) is not None


def confined(scratch: Path, cache: Path, environ: Mapping[str, str], gpu: bool) -> dict[str, str]:
    """Variables that confine a child (`inspector.confinement`) to its working folder `scratch`, `cache` and
    the folders of compilers' caches, and keep there what libraries write to the home or leave in /tmp: in
    `cache`, as torch has its precompiled C++ header there (torch/_inductor/codecache.py: _HEADER_DIR), 156 MB
    and 6 s of work that all graphs need."""
    temporary = cache / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    home = cache_folder(environ)
    compilers = [environ.get("CCACHE_DIR"), environ.get("SCCACHE_DIR"), home / "ccache", home / "sccache"]
    writable = [str(scratch), str(cache), *(str(folder) for folder in compilers if folder)]
    return {
        "TMPDIR": str(temporary),
        "TRITON_HOME": str(scratch),
        "CUDA_CACHE_PATH": str(cache / "cuda"),
        confinement.VARIABLE: confinement.request(writable, _tasks(), gpu),
    }


def _tasks() -> int:
    """Processes and threads of this user."""
    uid = os.getuid()
    count = 0
    for process in psutil.process_iter(["uids", "num_threads"]):
        uids = process.info["uids"]
        count += (process.info["num_threads"] or 1) if uids is not None and uids.real == uid else 0
    return count


def host_machine() -> dict[str, object]:
    """What this process can say of the machine without torch; the child adds to it."""
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "cpu": cpu_name() or platform.machine(),
        "cpu_count": os.cpu_count(),
    }
