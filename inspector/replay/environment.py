"""Where a replay runs: what the child inherits of this process's environment, and the machine's own facts."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from inspector.hardware.host import cpu_name
from inspector.replay.protocol import ReplayOptions

_DROPPED_PREFIXES = ("TORCH_COMPILE_DEBUG", "TORCH_LOGS", "TORCH_TRACE", "TORCHINDUCTOR_", "TORCHDYNAMO_")
"""Settings that make torch write debug files, move its caches or change what it generates."""

_DROPPED = frozenset({"TRITON_CACHE_DIR", "TRITON_DUMP_DIR", "TRITON_KERNEL_DUMP", "TRITON_ALWAYS_COMPILE"})

_KEPT = frozenset({"TORCHINDUCTOR_COMPILE_THREADS"})


def child_environment(
    cache: Path, options: ReplayOptions, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """This process's environment without what would make torch log, dump or use another cache.

    `cache` becomes Inductor's and Triton's cache folder. ``cuda:N`` in the options becomes
    CUDA_VISIBLE_DEVICES, counted among the devices that are visible now.
    """
    environ = os.environ if environ is None else environ
    result = {
        key: value
        for key, value in environ.items()
        if key in _KEPT or not (key.startswith(_DROPPED_PREFIXES) or key in _DROPPED)
    }
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


def host_machine() -> dict[str, object]:
    """What this process can say of the machine without torch; the child adds to it."""
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "cpu": cpu_name() or platform.machine(),
        "cpu_count": os.cpu_count(),
    }
