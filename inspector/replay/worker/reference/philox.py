"""The random numbers that generated kernels draw: Philox4x32-10 of a seed and an offset, in plain torch.

C++ kernels draw as torch/csrc/inductor/cpp_prefix.h does (normalized_rand_cpu, randn_cpu, randint64_cpu, on
at::Philox4_32), Triton kernels as triton/language/random.py, or by four at a time (rand4x, randn4x of
torch/_inductor/runtime/triton_helpers.py). An FX graph has nodes of torch/_inductor/inductor_prims.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

Drawing = Literal["cpp", "triton", "triton by four"]
"""How a kernel turns seed and offset into numbers."""

RANDOM = "draws random numbers, other ones in each run"

_SEEDS = "aten.randint.low_out(-9223372036854775808, "
"""How generated code draws its seeds (torch/_inductor/ir.py: RandomSeeds)."""

_LOW = 0xFFFFFFFF
_SCALE = 4.6566127342e-10

Rounded = Callable[[str, Tensor], Tensor]


def philox(key: tuple[Tensor, Tensor], counter: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four words of 32 bits, as int64, for each counter below 2**32."""
    words = counter & _LOW, *[torch.zeros_like(counter)] * 3
    first, second = key
    for _ in range(10):
        high0, low0 = _product(0xD2511F53, words[0])
        high1, low1 = _product(0xCD9E8D57, words[2])
        words = high1 ^ words[1] ^ first, low1, high0 ^ words[3] ^ second, low0
        first, second = (first + 0x9E3779B9) & _LOW, (second + 0xBB67AE85) & _LOW
    return words


def _product(factor: int, word: Tensor) -> tuple[Tensor, Tensor]:
    """The high and the low 32 bits of a product of two words, through halves that int64 holds."""
    low, high = factor * (word & 0xFFFF), factor * (word >> 16)
    total = low + ((high & 0xFFFF) << 16)
    return (high >> 16) + (total >> 32), total & _LOW


def _words(seed: Tensor, offset: Tensor, drawing: Drawing) -> tuple[Tensor, ...]:
    """The words from which the number at each offset is made. `offset`: over the whole loop nest.

    Raises ValueError where numbers are drawn by four at offsets that do not follow each other.
    """
    # A C++ kernel takes 32 bits of the seed.
    key = seed & _LOW, (seed >> 32 & _LOW) if drawing != "cpp" else torch.zeros_like(seed)
    if drawing != "triton by four":
        return philox(key, offset)
    flat = offset.reshape(-1)
    start = int(flat[0]) if flat.numel() else 0
    if start % 4 or not torch.equal(flat, torch.arange(start, start + flat.numel(), device=flat.device)):
        raise ValueError("it draws random numbers by four, at offsets that do not follow each other")
    return philox(key, offset // 4)


def _unit(word: Tensor, drawing: Drawing) -> Tensor:
    low = word & 0x7FFFFFFF
    if drawing != "cpp":
        low = torch.where(word > 0x7FFFFFFF, 0x7FFFFFFF - low, low)
    return low.to(torch.float32) * _SCALE


def uniform(seed: Tensor, offset: Tensor, drawing: Drawing) -> Tensor:
    """float32 within [0, 1)."""
    words = _words(seed, offset, drawing)
    if drawing == "triton by four":
        return _unit(torch.stack(words).gather(0, (offset % 4)[None])[0], drawing)
    return _unit(words[0], drawing)


def normal(seed: Tensor, offset: Tensor, drawing: Drawing, rounded: Rounded) -> Tensor:
    """float64 of N(0, 1). `rounded` gives a function's result as a kernel may have it."""
    words = _words(seed, offset, drawing)
    odd = torch.zeros_like(offset, dtype=torch.bool)
    if drawing == "triton by four":
        odd = offset % 2 == 1
        second = offset % 4 > 1
        words = torch.where(second, words[2], words[0]), torch.where(second, words[3], words[1])
    size, turn = (_unit(word, drawing) for word in words[:2])
    size, turn = (1 - size, 1 - turn) if drawing == "cpp" else (size.clamp_min(1e-7), turn)
    # The angle is rounded to float32 before its cosine is had.
    angle = rounded("mul", 2 * math.pi * turn.double())
    length = (-2 * rounded("log", size.double().log())).clamp_min(0).sqrt()
    return length * torch.where(odd, rounded("sin", angle.sin()), rounded("cos", angle.cos()))


def integers(seed: Tensor, offset: Tensor, low: Tensor, high: Tensor, drawing: Drawing) -> Tensor:
    """int64 within [low, high). Raises ValueError for ranges beyond 31 bits."""
    words = _words(seed, offset, "cpp" if drawing == "cpp" else "triton")
    count = high - low
    if bool(((count > 1 << 31) | (count <= 0)).any()):
        raise ValueError("it draws random integers from more than 31 bits")
    # 64 unsigned bits modulo the count, which int64 cannot hold.
    return ((words[1] % count) * ((1 << 32) % count) + words[0] % count) % count + low


@dataclass(frozen=True)
class Repeated:
    """Stands for a random node's function: gives what generated code draws behind `torch.manual_seed`."""

    draw: Callable[..., Tensor]

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        return self.draw(*args, **kwargs)


def repeated(random: set[str], text: str, seed: int) -> dict[str, Repeated]:
    """By operator what to call in place of a graph's `random` nodes, so that they draw as the generated code
    `text` does after `torch.manual_seed(seed)`; empty where some of them cannot be had so."""
    if not random or re.search(r"\b(randn?4x|rand_eager_kernel)\(", text) or text.count(_SEEDS) > 1:
        return {}
    drawing: Drawing = "triton" if re.search(r"\btl\.randn?\(|\.randint64\(", text) else "cpp"
    if drawing == "triton" and re.search(r"\b(normalized_rand|randn|randint64)_cpu\(", text):
        return {}
    start = text.find(_SEEDS)
    functions = {
        "prims.inductor_seeds": Repeated(partial(_seeds, seed)),
        "prims.inductor_random": Repeated(partial(_random, drawing)),
        "prims.inductor_randint": Repeated(partial(_randint, drawing)),
    }
    # What else draws does so behind the seeds.
    others = "|".join(re.escape(op.rpartition(".")[2]) for op in random - functions.keys())
    early = others and (start < 0 or re.search(rf"\b({others})\b[\w.]*\(", text[:start]))
    return {} if early else functions


def _seeds(seed: int, count: int, device: torch.device) -> Tensor:
    torch.manual_seed(seed)
    drawn = torch.empty(count, dtype=torch.int64, device=device)
    return torch.ops.aten.randint.low_out(-(1 << 63), (1 << 63) - 1, [count], out=drawn)


def _random(drawing: Drawing, size: Sequence[int], seed: Tensor, mode: str, **_: object) -> Tensor:
    if mode == "rand":
        return uniform(seed, _offsets(size, seed), drawing)
    return normal(seed, _offsets(size, seed), drawing, lambda _, value: value).to(torch.float32)


def _randint(drawing: Drawing, low: int, high: int, size: Sequence[int], seed: Tensor) -> Tensor:
    first, end = (torch.tensor(limit, device=seed.device) for limit in (low, high))
    return integers(seed, _offsets(size, seed), first, end, drawing)


def _offsets(size: Sequence[int], seed: Tensor) -> Tensor:
    return torch.arange(math.prod(size), device=seed.device).reshape(tuple(size))


def seeded(seed: Tensor, offset: Tensor) -> Tensor:
    """Numbers in [0, 1) that depend on seed and offset alone: stand-ins for a generator's, so that the
    FX graph and the IR hold the same values behind a dropout."""
    mixed = (torch.as_tensor(seed) % 9973).to(torch.float64) * 12.9898 + offset.to(torch.float64) * 78.233
    return torch.remainder(torch.sin(mixed) * 43758.5453, 1.0)
