"""Rules about GPUs: does torch see them, can Triton compile for them, what is off on them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from inspector.doctor.errors import findings_of, first_useful_line
from inspector.model.doctor import Facts, Finding

MIN_CAPABILITY = (7, 0)
"""What Triton needs (torch/_inductor/scheduler.py: Scheduler.create_backend; exc.py: GPUTooOldForTriton)."""

TF32_CAPABILITY = (8, 0)
"""From here on there are TF32 tensor cores (torch/_inductor/compile_fx.py: _warn_tf32_disabled)."""

MIN_DRIVERS = {"11": (450, 80), "12": (525, 60), "13": (580, 65)}
"""Oldest Linux driver for a CUDA major version (NVIDIA's CUDA release notes: minor version compatibility)."""

_ok, _warn, _bad = findings_of("gpu")
_INSTALL = "install a build for it: https://pytorch.org/get-started/locally"


def check_gpu(facts: Facts) -> Iterator[Finding]:
    """Whether GPUs and torch find each other; then a line for each GPU that torch sees."""
    if "gpu" not in facts:
        return
    failure = facts.failure("gpu")
    if failure is not None:
        yield _bad(
            f"looking for a GPU did not end well: {first_useful_line(failure)}",
            "a program that uses the GPU is likely to end the same way",
            "see whether nvidia-smi answers; restart the driver or the machine if it doesn't",
        )
    elif facts.gpus:
        for index, device in enumerate(facts.gpus):
            yield _device(facts, index, device)
        yield from _hints(facts)
    else:
        yield _none_seen(facts)


def _none_seen(facts: Facts) -> Finding:
    smi, torch, gpu = facts["nvidia_smi"], facts["torch"], facts["gpu"]
    present = [item["name"] for item in smi.get("gpus", ())]
    if not present:
        return _no_gpu(facts)
    named = ", ".join(dict.fromkeys(present))
    if not torch.get("cuda") and not torch.get("hip"):
        return _warn(
            f"there is a GPU ({named}), but this torch is built for the CPU only",
            "everything runs, and is compiled, for the CPU",
            _INSTALL,
        )
    hidden = facts.environment.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and hidden.strip() in ("", "-1"):
        return _warn(
            f"CUDA_VISIBLE_DEVICES={hidden} hides the GPU ({named})",
            "everything runs, and is compiled, for the CPU",
            "unset CUDA_VISIBLE_DEVICES, or name the GPUs to use",
        )
    driver = smi["gpus"][0].get("driver")
    if _driver_too_old(driver, torch.get("cuda")):
        least = ".".join(map(str, MIN_DRIVERS[torch["cuda"].partition(".")[0]]))
        return _bad(
            f"driver {driver} of the GPU ({named}) is too old for torch's CUDA {torch['cuda']}",
            "torch.cuda.is_available() is False: nothing can be compiled for the GPU",
            f"update the driver to {least} or newer, or install a torch build for an older CUDA",
        )
    words = [gpu.get("error"), *gpu.get("warnings", ())]
    reason = next(
        (line for text in words if text for line in text.splitlines() if line.strip()), "no reason given"
    )
    return _bad(
        f"there is a GPU ({named}, driver {driver}), but torch can't use it: {reason.strip()}",
        "torch.cuda.is_available() is False: nothing can be compiled for the GPU",
        "see that the driver fits torch's CUDA version; a container needs the GPU too (docker: --gpus all)",
    )


def _no_gpu(facts: Facts) -> Finding:
    smi = facts["nvidia_smi"]
    if smi.get("error"):
        return _warn(
            f"nvidia-smi is here, but fails: {smi['error'].splitlines()[0]}",
            "if there is an NVIDIA GPU, its driver is not running, and everything is compiled for the CPU",
            "load the driver; after an update of the driver, restart the machine",
        )
    return _ok("no GPU: everything is compiled for the CPU")


def _driver_too_old(driver: str | None, cuda: str | None) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", driver or "")
    least = MIN_DRIVERS.get((cuda or "").partition(".")[0])
    return numbers is not None and least is not None and (int(numbers[1]), int(numbers[2])) < least


def _device(facts: Facts, index: int, device: Mapping[str, Any]) -> Finding:
    major, minor = device["capability"]
    if facts["torch"].get("hip"):
        return _ok(f"{device['name']} (ROCm, {device['multiprocessors']} compute units)")
    text = f"{device['name']}: compute capability {major}.{minor}"
    if (major, minor) < MIN_CAPABILITY:
        return _too_old(facts, index, text)
    architectures = facts["gpu"].get("architectures", ())
    if architectures and not _has_code(architectures, major, minor):
        return _bad(
            f"{text}, and torch has no code for it (it has {' '.join(architectures)})",
            "operators fail with 'no kernel image is available', and so does what Inductor leaves to them",
            _INSTALL,
        )
    return _ok(f"{text}, {device['multiprocessors']} multiprocessors")


def _too_old(facts: Facts, index: int, text: str) -> Finding:
    newer = [item["name"] for item in facts.gpus if tuple(item["capability"]) >= MIN_CAPABILITY]
    if newer and index == 0:
        # torch/utils/_triton.py: has_triton looks at the current device alone.
        return _bad(
            f"{text}, too old for Triton (7.0 or newer), and it is the first GPU",
            f"torch judges Triton by the first GPU, so it compiles nothing for {newer[0]} either",
            f"set CUDA_VISIBLE_DEVICES so that {newer[0]} comes first",
        )
    if newer:
        return _warn(
            f"{text}, too old for Triton (7.0 or newer)",
            "a graph on this GPU raises GPUTooOldForTriton",
            f"use {newer[0]}",
        )
    return _bad(
        f"{text}, too old for Triton (7.0 or newer)",
        "torch.compile raises GPUTooOldForTriton; a 'fallback' that then returns the model as it was is "
        "eager in disguise, and timing it against eager compares eager with itself",
        "use a GPU of Volta (2017) or newer, or compile for the CPU; don't catch the error",
    )


def _has_code(architectures: list[str], major: int, minor: int) -> bool:
    """Machine code runs within its major version, PTX on all newer ones.

    The first half is torch/cuda/__init__.py: _check_cubins.
    """
    for name in architectures:
        match = re.match(r"(sm|compute)_(\d+)(\d)[a-z]?$", name)
        if match is None:
            continue
        built = (int(match[2]), int(match[3]))
        if built[0] == major if match[1] == "sm" else built <= (major, minor):
            return True
    return False


def _hints(facts: Facts) -> Iterator[Finding]:
    """What is off on the first GPU, which is otherwise fine."""
    first = facts.gpus[0]
    if not facts["torch"].get("hip") and tuple(first["capability"]) < MIN_CAPABILITY:
        return
    if first.get("big") is False:
        yield Finding(
            "max_autotune",
            "warn",
            f"{first['name']}: {first['multiprocessors']} multiprocessors, too few for max-autotune's GEMMs",
            "mode='max-autotune' tries no Triton matrix products here; they stay with the vendor's library "
            "(torch/_inductor/utils.py: is_big_gpu, 68 multiprocessors)",
            "nothing to do; time spent with mode='max-autotune' buys little on this GPU",
        )
    precision = facts["torch"].get("matmul_precision")
    if (
        facts["torch"].get("cuda")
        and tuple(first["capability"]) >= TF32_CAPABILITY
        and precision == "highest"
    ):
        yield Finding(
            "tf32",
            "ok",
            "float32 matrix products use no TF32 tensor cores, which is torch's default",
            "they are several times slower than with TF32, which keeps 10 bits of mantissa instead of 23",
            "torch.set_float32_matmul_precision('high') where that is precise enough",
        )
    elif precision is not None and precision != "highest":
        yield Finding("tf32", "ok", f"float32 matrix products may lose precision for speed: {precision}")
