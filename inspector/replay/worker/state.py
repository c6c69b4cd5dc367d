"""Sets torch as it was when the graph first ran in the captured program, and says what could not be set."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import torch

from inspector.model.state import TorchState, Value

Setter = Callable[[Any], object]


def _attribute(name: str) -> Setter:
    owner_name, _, last = name.rpartition(".")

    def set_it(value: Value) -> None:
        setattr(_reached(owner_name), last, value)

    return set_it


def _dtype(name: str) -> None:
    torch.set_default_dtype(getattr(torch, name))


def _threads(number: int) -> None:
    torch.set_num_threads(min(number, _available()))


_CUDA = torch.backends.cuda
_SETTERS: dict[str, Setter] = {
    # The old names of precision come first: the new ones are finer, and some torches have both.
    "get_float32_matmul_precision": torch.set_float32_matmul_precision,
    **{
        name: _attribute(name)
        for name in (
            "backends.cuda.matmul.allow_tf32",
            "backends.cudnn.allow_tf32",
            "backends.fp32_precision",
            "backends.cuda.matmul.fp32_precision",
            "backends.cudnn.fp32_precision",
            "backends.cudnn.conv.fp32_precision",
            "backends.cudnn.rnn.fp32_precision",
            "backends.mkldnn.fp32_precision",
            "backends.mkldnn.matmul.fp32_precision",
            "backends.mkldnn.conv.fp32_precision",
            "backends.mkldnn.rnn.fp32_precision",
            "backends.cudnn.enabled",
            "backends.cudnn.benchmark",
            "backends.cudnn.benchmark_limit",
            "backends.cudnn.deterministic",
            "backends.cuda.matmul.allow_fp16_accumulation",
            "backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
            "backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
            "backends.mkldnn.deterministic",
        )
    },
    "backends.mkldnn.enabled": lambda value: torch.backends.mkldnn.set_flags(value),
    "backends.cuda.flash_sdp_enabled": _CUDA.enable_flash_sdp,
    "backends.cuda.mem_efficient_sdp_enabled": _CUDA.enable_mem_efficient_sdp,
    "backends.cuda.math_sdp_enabled": _CUDA.enable_math_sdp,
    "backends.cuda.cudnn_sdp_enabled": lambda value: _CUDA.enable_cudnn_sdp(value),
    "backends.cuda.fp16_bf16_reduction_math_sdp_allowed": (
        lambda value: _CUDA.allow_fp16_bf16_reduction_math_sdp(value)
    ),
    # An operator without a deterministic form would fail; that it runs is what the program saw.
    "are_deterministic_algorithms_enabled": lambda value: torch.use_deterministic_algorithms(
        value, warn_only=True
    ),
    "get_default_dtype": _dtype,
    "get_num_threads": _threads,
}
"""Switch -> what sets it; in this order. Names that are not here are not restored: modes of a call, for which
the graph was compiled, and what can only be set before torch begins. Autocast is one of these: its casts
are in the graph, and AOTAutograd runs code without it (torch/_functorch/_aot_autograd: disable_amp)."""

_LIBRARIES = ("backends.cuda.preferred_blas_library", "backends.cuda.preferred_linalg_library")


def restore(state: TorchState, device: str) -> Iterator[str]:
    """Set what differs, for a graph on `device` (``cpu``, ``cuda:0``); a sentence for each that can't be."""
    if "affinity" in state.values:
        yield from _restore_affinity(str(state.values["affinity"]), state.values.get("get_num_threads"))
    for name, set_it in _SETTERS.items():
        if name not in state.values:
            continue
        wanted = state.values[name]
        try:
            # Each is read just before: setting one switch may set another.
            if _now(name) != wanted:
                set_it(wanted)
            now = _now(name)
        except Exception:
            now = "not known to it"
        if now != wanted and name != "get_num_threads" and _concerns(name, device):
            yield f"{name} was {wanted} in the run and is {now} here: this torch does not take it"
    if device != "cpu":
        yield from _restore_libraries(state)


def _restore_libraries(state: TorchState) -> Iterator[str]:
    for name in _LIBRARIES:
        wanted = state.values.get(name)
        try:
            if wanted is not None and _now(name) != wanted:
                choose: Any = _reached(name)
                choose(str(wanted).lower())
        except Exception:
            yield f"{name} was {wanted} in the run and cannot be set here"


def _restore_affinity(text: str, threads: Value) -> Iterator[str]:
    wanted = parse_ranges(text)
    try:
        here = os.sched_getaffinity(0)
        os.sched_setaffinity(0, wanted & here or here)
    except (OSError, AttributeError):
        here = set(range(os.cpu_count() or 1))
    if isinstance(threads, int) and threads > _available():
        here_are = _available()
        yield f"the run used {threads} threads, and this machine has {here_are} CPUs: times are of {here_are}"


def parse_ranges(text: str) -> set[int]:
    """The CPUs of `0-3,8`; none of what is no such text."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit() and int(last or first) < 1 << 16:
            numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def _available() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _concerns(name: str, device: str) -> bool:
    """Whether a switch decides about kernels of that device."""
    of_gpu = name.startswith(("backends.cuda", "backends.cudnn"))
    return not (of_gpu and device == "cpu") and not ("mkldnn" in name and device != "cpu")


def _now(name: str) -> Value:
    value: Any = _reached(name)
    value = value() if callable(value) else value
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value).rsplit(".", 1)[-1]


def _reached(name: str) -> object:
    owner: Any = torch
    for part in name.split("."):
        owner = getattr(owner, part)
    return owner
