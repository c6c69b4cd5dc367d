"""Whether a changed kernel is a faulty one: the kernel as it was and as it is run side by side.

Both get values of the oracle's own, in memory with margins, and what differs by more than rounding is a
fault. Nothing of replay's comparison or of its values is part of that: of replay only the graph's arguments
are, with which the generated wrapper runs once, so that each kernel's sizes are those of the graph; and
where Triton's interpreter stands in for a GPU, what lets a wrapper and libdevice's functions run on a CPU.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fault_kinds import KERNEL

from inspector.replay.worker.events import KernelFault as OutOfBounds

INTERPRETER = "TRITON_INTERPRET" in os.environ

MARGIN = 64
DRAWS = (
    "given", "plain", "plain", "tied", "tied", "large", "special", "positive", "negative", "constants",
    "tiny", "equal", "equal", "equal", "equal", "whole", "near",
)  # fmt: skip
PLAIN = ("given", "plain")

_INDIRECT = re.compile(
    r"out of bounds|device_assert|\[static_cast<int64_t>\([^;]*tmp|(?:load|store|add)\([^;]*\+ \([^;,]*tmp"
)
_CONVERTS = re.compile(r"convert<u?int\d+_t[^>]*>\(tmp|static_cast<u?int\d+_t>\(tmp|\.to\(tl\.u?int\d+\)")
_BOUNDED = re.compile(r"clamp|minimum|maximum")
_FLOATS = re.compile(r"float\*|bfloat16\*|half\*|'\*(?:fp|bf)")
_DIVIDES = re.compile(r"floor_divide|remainder|div_floor|<<|>>| / | // | % ")


class Launches:
    """What one call of the generated module hands each kernel first."""

    def __init__(self, text: str, interpreter: bool = False) -> None:
        self.module = executed(text, interpreter)
        self.names = {kernel["name"] for kernel in KERNEL.finditer(text)}
        self.seen: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}

    def record(self, args: list[Any]) -> None:
        for name in self.names & self.module.keys():
            self.module[name] = _Recorded(name, self.module[name], self.seen)
        self.module["call"](args)


class _Recorded:
    def __init__(self, name: str, kernel: Any, seen: dict[str, Any]) -> None:
        self._name, self._kernel, self._seen = name, kernel, seen

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._seen.setdefault(self._name, (_copied(args), kwargs))
        return self._kernel(*args, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        self._seen.setdefault(self._name, (_copied(args), kwargs))
        return self._kernel.run(*args, **kwargs)


def _copied(args: Sequence[Any]) -> tuple[Any, ...]:
    import torch

    return tuple(_in_place(arg) if isinstance(arg, torch.Tensor) else arg for arg in args)


def _in_place(arg: Any) -> Any:
    """A copy with the same strides, also where a part of a larger buffer has gaps."""
    import torch

    try:
        return torch.empty_strided(arg.shape, arg.stride(), dtype=arg.dtype, device=arg.device).copy_(arg)
    except RuntimeError:
        return arg.clone()


def executed(text: str, interpreter: bool = False) -> dict[str, Any]:
    """The generated module's names. `interpreter`: a GPU's module, on the CPU."""
    if interpreter:
        from inspector.replay.worker.code.generated import GeneratedCode
        from inspector.replay.worker.interpreter.module import OnCpu

        with TemporaryDirectory() as folder:
            path = Path(folder) / "module.py"
            path.write_text(text)
            return vars(GeneratedCode(path, Path(folder), OnCpu(None, 20.0, 1)).module)
    space: dict[str, Any] = {"__name__": "faulty", "__file__": "/tmp/faulty.py"}
    exec(compile(text, "<output_code>", "exec"), space)
    return space


def oracle(before: Any, after: Any, launch: tuple[tuple[Any, ...], dict[str, Any]], text: str) -> str:
    """`plain` or `values`: the kernels differ by more than rounding on what the graph gives or N(0, 1), or on
    other values only; `same`: they don't; `unstable`: the kernel as it was differs from itself."""
    import torch

    args, kwargs = launch
    constants = sorted({float(value) for value in re.findall(r"(?<![\w.])-?\d+\.\d+(?:e-?\d+)?", text)})[:20]
    differs = False
    # C leaves open what comes of a float that an integer can't hold, and of NaN.
    converts = _CONVERTS.search(text) is not None and _FLOATS.search(text) is not None
    wide = not converts or _BOUNDED.search(text) is not None
    for number, kind in enumerate(DRAWS * (1 if INTERPRETER else 2)):
        if kind in {"large", "special", "equal"} and not wide:
            continue
        generator = torch.Generator().manual_seed(number)
        drawn = (
            list(args) if kind == "given" else [_drawn(arg, kind, constants, generator, text) for arg in args]
        )
        if converts:
            drawn = [_without_nan(arg) for arg in drawn]
        try:
            results = [_ran(before, drawn, kwargs) for _ in range(1 if INTERPRETER else 2)]
        except (RuntimeError, OutOfBounds):
            continue
        if not _alike(results[0], results[-1], exact=True):
            return "unstable"
        try:
            changed = _alike(results[0], _ran(after, drawn, kwargs), exact=False)
        except (RuntimeError, OutOfBounds):
            changed = False
        if not changed:
            differs = True
            if kind in PLAIN:
                return "plain"
    return "values" if differs else "same"


def _without_nan(arg: Any) -> Any:
    import torch

    if not isinstance(arg, torch.Tensor) or not arg.dtype.is_floating_point:
        return arg
    return torch.where(arg.float().isnan(), torch.zeros((), dtype=arg.dtype), arg.cpu())


def _drawn(arg: Any, kind: str, constants: Sequence[float], generator: Any, text: str) -> Any:
    """An argument's values. Where they may be indices, those that were seen, in another order."""
    import torch

    if not isinstance(arg, torch.Tensor) or not arg.numel():
        return arg
    count = arg.numel()
    if arg.dtype == torch.bool:
        return (torch.rand(count, generator=generator) < 0.5).reshape(arg.shape)
    if not arg.dtype.is_floating_point:
        info = torch.iinfo(arg.dtype)
        if kind in ("large", "special") and not _INDIRECT.search(text) and not _DIVIDES.search(text):
            reach = info.max if kind == "large" else min(info.max, 9 * 10**9)
            values = torch.randint(max(info.min, -reach), reach, (count,), generator=generator)
        elif kind in ("tied", "negative") and info.min < 0 and not _INDIRECT.search(text):
            values = torch.randint(1, 8, (count,), generator=generator)
            values *= torch.randint(2, (count,), generator=generator) * 2 - 1
            if "<<" in text or ">>" in text:
                values = values.abs()
        else:
            values = arg.flatten().cpu()[torch.randint(count, (count,), generator=generator)]
        return values.to(arg.dtype).reshape(arg.shape)
    values = torch.randn(count, generator=generator, dtype=torch.float64)
    if kind == "positive":
        values = values.abs() + 0.1
    elif kind == "negative":
        values = -values.abs() - 0.1
    elif kind == "large":
        values = values * 10.0 ** torch.randint(-2, 4, (count,), generator=generator)
    elif kind == "tiny":
        values = values * 10.0 ** float(torch.randint(-7, -2, (), generator=generator))
    elif kind == "equal":
        pool = [0.0, 1.0, -1.0, -7.5, 300.0, float("inf"), -float("inf"), *constants]
        values = torch.full((count,), pool[int(torch.randint(len(pool), (), generator=generator))])
    elif kind == "whole":
        values = torch.randint(-24, 25, (count,), generator=generator, dtype=torch.float64) / 2
    elif kind == "near":
        pool = [0.0, 1.0, -1.0, *constants]
        values = torch.tensor(pool)[torch.randint(len(pool), (count,), generator=generator)]
        steps = torch.randint(-3, 4, (count,), generator=generator) * torch.finfo(torch.float32).eps
        values = values.double() * (1 + steps) + steps
    elif kind in {"tied", "constants"}:
        pool = (
            [-1.0, 0.0, 1.0, 2.0, -3.0, 0.5]
            if kind == "tied"
            else [*constants, *(-c for c in constants), 0.0]
        )
        values = torch.tensor(pool, dtype=torch.float64)[
            torch.randint(len(pool), (count,), generator=generator)
        ]
    elif kind == "special":
        special = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 30.0], dtype=torch.float64)
        picked = special[torch.randint(5, (count,), generator=generator)]
        values = torch.where(torch.rand(count, generator=generator) < 0.05, picked, values)
    # What is never negative here, a sum of squares say, the graph never makes negative.
    values = values.abs() if kind != "special" and bool((arg.double() >= 0).all()) else values
    return (values.float() if arg.dtype.itemsize == 1 else values).to(arg.dtype).reshape(arg.shape)


def _ran(kernel: Any, drawn: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Every tensor after the launch, with the margins around it."""
    import torch

    whole, args = [], []
    for value in drawn:
        if not isinstance(value, torch.Tensor):
            args.append(value)
            continue
        extent = (
            1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))
            if value.numel()
            else 0
        )
        memory = (
            torch.full((extent + 2 * MARGIN,), 3, dtype=torch.float32).to(value.dtype).to(_device(kwargs))
        )
        inner = torch.as_strided(memory, value.shape, value.stride(), MARGIN)
        inner.copy_(value)
        whole.append(memory)
        args.append(inner)
    if INTERPRETER and "stream" in kwargs:
        kernel.run(*args, **kwargs)
    elif "stream" in kwargs:
        torch.cuda.set_device(0)
        kernel.run(*args, **{**kwargs, "stream": torch.cuda.current_stream().cuda_stream})
        torch.cuda.synchronize()
    else:
        kernel(*args, **kwargs)
    return [memory.cpu() for memory in whole]


def _device(kwargs: dict[str, Any]) -> str:
    return "cuda" if "stream" in kwargs and not INTERPRETER else "cpu"


def _alike(left: Sequence[Any], right: Sequence[Any], exact: bool) -> bool:
    """Equal, or within some units in the last place: 32 of the element and of the middle one for float32, 3
    for half precision, 1 of the element for 8-bit floats."""
    import torch

    for one, other in zip(left, right, strict=True):
        if not one.dtype.is_floating_point:
            if not torch.equal(one, other):
                return False
            continue
        a, b = one.double(), other.double()
        same = (a == b) | (a.isnan() & b.isnan())
        if not exact:
            eps = torch.finfo(one.dtype).eps
            inner = a[MARGIN:-MARGIN]
            inner = inner[inner.isfinite()]
            scale = inner.abs().median() if inner.numel() else torch.zeros(())
            if one.dtype.itemsize == 1:
                near = (a - b).abs() <= eps * a.abs()
            else:
                near = (a - b).abs() <= (32 if eps < 1e-4 else 3) * eps * (a.abs() + scale)
            same |= near & a.isfinite() & b.isfinite()
        if not bool(same.all()):
            return False
    return True
