"""What decides, beside the program's code, which kernels torch runs: its switches, threads and environment.

Read at calls of compiled code and at the first run of each graph, and never set. The names are those of
torch, below the module `torch`.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

ATTRIBUTES = (
    "backends.cudnn.enabled",
    "backends.cudnn.benchmark",
    "backends.cudnn.benchmark_limit",
    "backends.cudnn.deterministic",
    "backends.cudnn.allow_tf32",
    "backends.cudnn.fp32_precision",
    "backends.cudnn.conv.fp32_precision",
    "backends.cudnn.rnn.fp32_precision",
    "backends.cuda.matmul.allow_tf32",
    "backends.cuda.matmul.fp32_precision",
    "backends.cuda.matmul.allow_fp16_accumulation",
    "backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
    "backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
    "backends.mkldnn.enabled",
    "backends.mkldnn.deterministic",
    "backends.mkldnn.fp32_precision",
    "backends.mkldnn.matmul.fp32_precision",
    "backends.mkldnn.conv.fp32_precision",
    "backends.mkldnn.rnn.fp32_precision",
    "backends.fp32_precision",
)
"""Read as they are; a name that this torch does not have is left out."""

FUNCTIONS = (
    "backends.cuda.flash_sdp_enabled",
    "backends.cuda.mem_efficient_sdp_enabled",
    "backends.cuda.math_sdp_enabled",
    "backends.cuda.cudnn_sdp_enabled",
    "backends.cuda.fp16_bf16_reduction_math_sdp_allowed",
    "backends.cuda.preferred_blas_library",
    "backends.cuda.preferred_linalg_library",
    "get_float32_matmul_precision",
    "are_deterministic_algorithms_enabled",
    "is_deterministic_algorithms_warn_only_enabled",
    "get_default_dtype",
    "is_grad_enabled",
    "is_autocast_cache_enabled",
    "is_inference_mode_enabled",
    "get_num_threads",
    "get_num_interop_threads",
)
"""Called without arguments. None of them initialises a device or fixes a number of threads."""

AUTOCAST_DEVICES = ("cuda", "cpu", "xpu", "mps")
STATE_LIMIT = 50
"""Different states of a process; a program that has more changes something at every call."""

VARIABLES = re.compile(
    r"(PYTORCH_|TORCH|INDUCTOR_|TRITON_|CUDA_|CUDNN_|CUBLAS|NVIDIA_TF32_OVERRIDE$|NCCL_|HIP_|ROCR_|MIOPEN_"
    r"|OMP_|GOMP_|KMP_|MKL_|MKLDNN_|DNNL_|ONEDNN_|ATEN_|MALLOC_|OPENBLAS_NUM_THREADS$|LD_PRELOAD$)"
)
SECRET = re.compile(r"TOKEN|SECRET|PASS|CREDENTIAL|AUTH|API_?KEY|_KEY$|URL|HEADER", re.IGNORECASE)
VALUE_LIMIT = 500


class States:
    """The different states that a process was seen in; each is written once and named by its position.

    The first is what torch began with, so that what the program changed is the difference from it.
    """

    def __init__(self) -> None:
        self._states: dict[tuple[tuple[str, Any], ...], int] = {}

    def seen(self) -> int | None:
        """The position of the state that the calling thread is in; None beyond the limit."""
        state = tuple(read_state(sys.modules["torch"]))
        if state not in self._states and len(self._states) >= STATE_LIMIT:
            return None
        return self._states.setdefault(state, len(self._states))

    def note(self, positions: list[int]) -> None:
        """Add the state of the moment to those that a callable was called in."""
        position = self.seen()
        if position is not None and position not in positions:
            positions.append(position)

    def as_json(self) -> dict[str, Any]:
        states = [dict(state) for state in self._states]
        return {"states": states, "environment": environment(), "cpus": os.cpu_count()}


def read_state(torch: Any) -> list[tuple[str, Any]]:
    """(name, value) of everything that this torch has; values are None, flags, numbers and texts."""
    values: list[tuple[str, Any]] = []
    for name in ATTRIBUTES:
        _add(values, name, lambda name=name: _reached(torch, name))
    for name in FUNCTIONS:
        _add(values, name, lambda name=name: _reached(torch, name)())
    for device in AUTOCAST_DEVICES:
        _add(values, f"autocast.{device}", lambda device=device: _autocast(torch, device))
    _add(values, "affinity", lambda: ranges(os.sched_getaffinity(0)))
    return values


def environment() -> dict[str, str]:
    """The variables that torch and its libraries read; nothing whose name sounds of a secret."""
    return {
        name: value[:VALUE_LIMIT]
        for name, value in sorted(os.environ.items())
        if VARIABLES.match(name) and not SECRET.search(name)
    }


def ranges(numbers: Any) -> str:
    """`0-3,8` of a set of numbers."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _add(values: list[tuple[str, Any]], name: str, read: Any) -> None:
    try:
        value = read()
    except Exception:
        # Another version has another name, and some raise where the old and the new one were mixed.
        return
    if value is not None and not isinstance(value, (bool, int, str)):
        # torch.bfloat16, _BlasBackend.Cublas
        value = str(value).rsplit(".", 1)[-1]
    values.append((name, value))


def _reached(owner: Any, name: str) -> Any:
    for part in name.split("."):
        owner = getattr(owner, part)
    return owner


def _autocast(torch: Any, device: str) -> Any:
    """The dtype, None where it is off."""
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
