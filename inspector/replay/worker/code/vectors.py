"""How wide the vectors are that generated C++ was written for.

`at::vec::Vectorized` is as wide as the compiler is told, while the generated loops step by the width that the
capturing machine had: compiled with another width they leave elements out or go beyond a buffer's end.
"""

from __future__ import annotations

import platform
import re
import warnings

import torch
from torch._inductor import config, cpu_vec_isa

_DEFINITION = re.compile(r"\basync_compile\.cpp(?:_pybinding)?\(")

# at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>(16));
# torch 2.4: at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<long>(x0), 16);
_LOAD = re.compile(
    r"\bVectorizedN?<(?P<type>[\w:]+)(?:,\s*\d+)?>::loadu\("
    r"[^;\n]*?, (?:static_cast<int64_t>\()?(?P<lanes>\d+)\)?\)\s*[;),]"
)
_FOUR_BYTES = re.compile(r"\bVectorized<(?:float|int32_t)>")
_TWO_FLOATS = re.compile(r"\bVectorizedN<float,\s*2>|\bconvert<float,\s*2,")
_HALVES = frozenset({"half", "Half", "bfloat16", "BFloat16"})


def bits_written_for(text: str) -> int | None:
    """Width in bits that the loops of an `output_code.py`, or of one kernel's source, step by
    (torch/_inductor/codegen/cpp.py: CppVecKernel); None where no loop is vectorized."""
    widest = max(_widest(part) for part in _DEFINITION.split(text)[1:] or [text])
    return next((bits for bits in (128, 256, 512, 1024, 2048) if widest and widest <= bits), None)


def _widest(definition: str) -> int:
    loads = [(load["type"].rsplit("::", 1)[-1], int(load["lanes"])) for load in _LOAD.finditer(definition)]
    # A loop steps by as many as there are floats in a vector, whatever is loaded, or by as many as there are
    # halves where it is of these: then it computes in two vectors of floats (codegen/cpp.py: tiling_factor).
    halves = _TWO_FLOATS.search(definition) is not None
    if not halves and _FOUR_BYTES.search(definition) is None:
        halves = any(kind in _HALVES for kind, _ in loads)
    return max((lanes * (16 if halves else 32) for _, lanes in loads), default=0)


def build_for(text: str) -> str | None:
    """Has Inductor compile C++ for vectors as wide as those that `text` was written for; the reason where
    this machine has none such."""
    bits = bits_written_for(text)
    config.cpp.simdlen = None
    own, widths = _own()
    if bits is None or bits == own.bit_width():
        return None
    if bits < own.bit_width() and bits in widths:
        config.cpp.simdlen = bits
        return None
    here = max(own.bit_width(), 0) or "no"
    return (
        f"the C++ kernels were written for vectors of {bits} bits; on this machine, whose vectors have "
        f"{here} bits ({torch.backends.cpu.get_cpu_capability()}), they would compute "
        "something else: take a machine with such vectors, or capture here"
    )


def vectors_for(text: str) -> cpu_vec_isa.VecISA | None:
    """The vectors with which what `text` defines can be compiled here, if not run: x86's of 256 and 512 bits
    on any x86 machine; None where the compiler of this machine's processor knows none of that width."""
    own, _ = _own()
    bits = bits_written_for(text)
    if bits is None or bits == own.bit_width():
        return own
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    kind = {256: cpu_vec_isa.VecAVX2, 512: cpu_vec_isa.VecAVX512}.get(bits) if x86 else None
    return None if kind is None else kind()


def _own() -> tuple[cpu_vec_isa.VecISA, set[int]]:
    """What Inductor takes on this machine by itself, and all widths that it could."""
    with warnings.catch_warnings(), config.patch({"cpp.simdlen": None}):
        warnings.simplefilter("ignore")
        own = cpu_vec_isa.pick_vec_isa()
        return own, {isa.bit_width() for isa in cpu_vec_isa.valid_vec_isa_list()}
