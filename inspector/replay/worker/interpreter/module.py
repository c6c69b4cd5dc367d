"""A GPU's generated wrapper made to run on the CPU: allocations, devices, streams, operators.

`prepare_torch` changes this process's torch: what asks for a GPU does nothing or works on the CPU, and
the attention operators that only GPUs have are computed by their definition. `OnCpu` changes the
wrapper's text, and `Kernels` takes the place of its ``AsyncCompile``.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from inspector.replay.protocol import KernelFacts, Request
from inspector.replay.worker.attention import attention
from inspector.replay.worker.events import NotRunnable
from inspector.replay.worker.interpreter.grid import OlderGrid, older_grid_functions
from inspector.replay.worker.interpreter.half import HalfProducts
from inspector.replay.worker.interpreter.kernel import InterpretedKernel, Settings

_DEVICE = re.compile(r"device\(type='cuda'(?:, index=\d+)?\)|'cuda(?::\d+)?'")

_STRIDES = re.compile(r"^(?P<indent>[ ]+)assert_size_stride\((?P<name>\w+), ", re.MULTILINE)

_COMPILER = re.compile(r"^(async_compile = )AsyncCompile\(\)", re.MULTILINE)

_RESTRIDE = "__inspector_restride__"

_KERNELS = "__inspector_kernels__"

_library: torch.library.Library | None = None


class Kernels:
    """In place of ``AsyncCompile()``: Triton kernels are interpreted, C++ ones compiled as usual; what cannot
    be loaded raises on launch."""

    def __init__(self, settings: Settings) -> None:
        from torch._inductor.async_compile import AsyncCompile

        self._real = AsyncCompile()
        self._settings = settings

    def triton(self, name: str, source: str, *_: object, **__: object) -> object:
        try:
            return InterpretedKernel(name, source, self._settings)
        except NotRunnable as failure:
            return Unrunnable(str(failure))

    def multi_kernel(
        self,
        _name: str,
        kernels: Mapping[object, InterpretedKernel] | Sequence[InterpretedKernel],
        arg_index: Mapping[int, Sequence[slice]] | None = None,
        **_: object,
    ) -> InterpretedKernel | _Variant:
        """Variants of one kernel, of which torch picks the fastest: the first of them."""
        kernel = next(iter(kernels.values())) if isinstance(kernels, Mapping) else kernels[0]
        return kernel if arg_index is None else _Variant(kernel, arg_index[0])

    def wait(self, scope: dict[str, object]) -> None:
        self._real.wait(scope)

    def __getattr__(self, kind: str) -> object:
        if kind.startswith("__"):
            raise AttributeError(kind)
        if kind.startswith("cpp"):
            return getattr(self._real, kind)

        return lambda *_, **__: Unrunnable(f"kernels made by async_compile.{kind} need a GPU")


class _Variant:
    """One of a multi-kernel's variants; `places` are the slices of the launch's arguments that it takes
    (torch/_inductor/codegen/multi_kernel.py: MultiKernelCall)."""

    def __init__(self, kernel: InterpretedKernel, places: Sequence[slice]) -> None:
        self.kernel = kernel
        self._places = places

    @property
    def facts(self) -> KernelFacts:
        return self.kernel.facts

    def run(self, *args: object, grid: OlderGrid | Sequence[int] | None = None, **kwargs: object) -> None:
        self.kernel.run(*(item for place in self._places for item in args[place]), grid=grid, **kwargs)


class Unrunnable:
    """A kernel that cannot be loaded here; launching it says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def run(self, *_: object, **__: object) -> None:
        raise NotRunnable(self.reason)


class OnCpu:
    """What turns output_code.py, captured on a GPU, into a module for the CPU (`GeneratedCode`)."""

    def __init__(self, budget_s: float | None, limit_s: float, seed: int) -> None:
        """`budget_s`, `limit_s` and `seed` are those of `Settings`."""
        prepare_torch()
        self.kernels = Kernels(Settings(budget_s, limit_s, seed))

    def text(self, text: str) -> str:
        """The wrapper with CPU devices and interpreted kernels, line by line as before.

        Strides are asserted as a GPU's libraries choose them; where an operator on the CPU chooses
        others its result is copied.
        """
        text = _STRIDES.sub(rf"\g<indent>\g<name> = {_RESTRIDE}(\g<name>, ", text)
        return _COMPILER.sub(rf"\g<1>{_KERNELS}", cpu_text(text))

    def request(self, request: Request) -> Request:
        """The replay's request with FX scripts for the CPU, which are written to its scratch folder."""
        files = request.files

        def on_cpu(kind: str, source: Path | None) -> Path | None:
            if source is None:
                return None
            target = request.scratch / kind / source.name
            target.parent.mkdir(exist_ok=True)
            text = source.read_text(encoding="utf-8", errors="replace")
            target.write_text(cpu_text(text), encoding="utf-8")
            return target

        plan = files.kernels
        if plan is not None:
            layouts = {name: replace(layout, device="cpu") for name, layout in plan.layouts.items()}
            plan = replace(plan, layouts=layouts)
        files = replace(
            files,
            fx_runnable=on_cpu("fx_runnable", files.fx_runnable),
            fx_transformed=on_cpu("fx_transformed", files.fx_transformed),
            forward=on_cpu("forward", files.forward),
            kernels=plan,
        )
        return replace(request, files=files)

    @staticmethod
    def kernel_of(function: object) -> InterpretedKernel | None:
        """The kernel whose launch ``kernel.run`` is; None for other functions."""
        owner = getattr(function, "__self__", None)
        owner = owner.kernel if isinstance(owner, _Variant) else owner
        return owner if isinstance(owner, InterpretedKernel) else None

    def names(self) -> dict[str, object]:
        """What `text`'s result needs in the module's namespace."""
        return {_RESTRIDE: _restride, _KERNELS: self.kernels}

    def missing(self, source: str) -> object:
        """A stand-in for what the wrapper imports and this torch lacks, None where there is none."""
        return _STAND_INS.get(source.rpartition(".")[2])


_STAND_INS: dict[str, Callable[..., object]] = {
    **older_grid_functions(),
    "start_graph": lambda *_, **__: None,
    "end_graph": lambda *_, **__: None,
    "_cuda_getCurrentRawStream": lambda *_: 0,
}


def _restride(tensor: object, size: Sequence[int], stride: Sequence[int], *_: object) -> object:
    """`tensor` itself where it is laid out so, else a copy that is."""
    size, stride = tuple(size), tuple(stride)
    if not isinstance(tensor, Tensor) or tuple(tensor.shape) != size:
        torch._C._dynamo.guards.assert_size_stride(tensor, size, stride)
        return tensor
    same = all(
        have == want for have, want, length in zip(tensor.stride(), stride, size, strict=True) if length != 1
    )
    if same:
        return tensor
    result = torch.empty_strided(size, stride, dtype=tensor.dtype)
    return result.copy_(tensor)


def cpu_text(text: str) -> str:
    """Python text with the CPU in place of every ``device(type='cuda', index=0)`` and ``'cuda:0'``."""
    return _DEVICE.sub(lambda match: "'cpu'" if match[0].startswith("'") else "device(type='cpu')", text)


def prepare_torch() -> None:
    """Makes GPU allocations, guards and operators work on the CPU in this process. Cannot be undone."""
    global _library
    if _library is not None:
        return
    guards = torch._C._dynamo.guards
    guards._empty_strided_cuda = _empty_strided
    torch._C._cuda_getCurrentRawStream = lambda *_: 0
    cuda = torch.cuda
    for name in ("_DeviceGuard", "device", "stream", "StreamContext"):
        setattr(cuda, name, lambda *_, **__: contextlib.nullcontext())
    for name in ("set_device", "synchronize", "set_stream"):
        setattr(cuda, name, lambda *_, **__: None)
    for name in ("current_stream", "default_stream", "Stream", "Event"):
        setattr(cuda, name, _Stream)
    _library = torch.library.Library("aten", "IMPL")
    for name, function in _OPERATORS.items():
        if hasattr(torch.ops.aten, name) and not torch._C._dispatch_has_kernel_for_dispatch_key(
            f"aten::{name}", "CPU"
        ):
            _library.impl(name, function, "CPU")
    HalfProducts().__enter__()


class _Stream:
    """A stream or event of a machine without any: everything on it is done at once."""

    cuda_stream = 0

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., object]:
        return lambda *_, **__: None


def _empty_strided(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Fresh memory that shows where nothing was written: NaN, or an unlikely integer."""
    tensor = torch.empty_strided(tuple(size), tuple(stride), dtype=dtype)
    storage = tensor.untyped_storage()
    whole = torch.empty(0, dtype=dtype).set_(storage, 0, (storage.nbytes() // dtype.itemsize,), (1,))
    if dtype.is_floating_point or dtype.is_complex:
        whole.fill_(math.nan)
    else:
        torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,)).fill_(
            1 if dtype == torch.bool else 0xA5
        )
    return tensor


def _attended(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, causal: bool, scale: float | None
) -> Tensor:
    out, log_sum = attention(
        query.float(), key.float(), value.float(), None if bias is None else _float(bias), causal, scale
    )
    # (batch, length, heads, size) in memory, as the GPU operators lay their result out.
    result = out.to(query.dtype).transpose(1, 2).contiguous().transpose(1, 2)
    return result, log_sum.float()


def _float(bias: Tensor) -> Tensor:
    return bias if bias.dtype == torch.bool else bias.float()


def _empty() -> Tensor:
    return torch.zeros((), dtype=torch.int64)


# Dropout is left out: what it leaves is random, and compared with nothing.


def _cudnn_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_bias: Tensor | None, _compute_log_sumexp: bool,
    _dropout: float = 0.0, is_causal: bool = False, _return_debug_mask: bool = False, *,
    scale: float | None = None,
) -> object:  # fmt: skip
    out, log_sum = _attended(query, key, value, attn_bias, is_causal, scale)
    sizes = (query.shape[2], key.shape[2])
    return out, log_sum.unsqueeze(-1), None, None, *sizes, _empty(), _empty(), None


def _flash_attention(
    query: Tensor, key: Tensor, value: Tensor, _dropout: float = 0.0, is_causal: bool = False,
    _return_debug_mask: bool = False, *, scale: float | None = None,
) -> object:  # fmt: skip
    out, log_sum = _attended(query, key, value, None, is_causal, scale)
    sizes = (query.shape[2], key.shape[2])
    return out, log_sum, None, None, *sizes, _empty(), _empty(), torch.empty(0, dtype=query.dtype)


def _efficient_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_bias: Tensor | None, compute_log_sumexp: bool,
    _dropout: float = 0.0, is_causal: bool = False, *, scale: float | None = None,
) -> object:  # fmt: skip
    out, log_sum = _attended(query, key, value, attn_bias, is_causal, scale)
    # The operator pads the lengths to a multiple of 32 (attention.cu: kAlignLSE).
    length = query.shape[2]
    padded = torch.full((*log_sum.shape[:-1], -(-length // 32) * 32), math.inf)
    padded[..., :length] = log_sum
    return out, padded if compute_log_sumexp else padded[..., :0], _empty(), _empty()


def _attention_gradients(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    wanted = [query, key, value] + ([bias] if bias is not None and bias.dtype != torch.bool else [])
    # The dispatcher has left autograd out by the time that it calls an operator's kernel.
    within = torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.AutogradFunctionality, False)
    with within, torch.enable_grad():
        leaves = [tensor.detach().float().requires_grad_() for tensor in wanted]
        mask = leaves[3] if len(leaves) > 3 else bias
        out, _ = attention(leaves[0], leaves[1], leaves[2], mask, causal, scale)
        grads = torch.autograd.grad(out, leaves, grad.float())
    results = [g.to(t.dtype) for g, t in zip(grads, wanted, strict=True)]
    return results[0], results[1], results[2], results[3] if len(results) > 3 else None


def _cudnn_backward(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, _out: object, _logsumexp: object,
    _philox_seed: object, _philox_offset: object, attn_bias: Tensor, _cum_seq_q: object, _cum_seq_k: object,
    _max_q: int, _max_k: int, _dropout: float, is_causal: bool, *, scale: float | None = None,
) -> object:  # fmt: skip
    bias = attn_bias if isinstance(attn_bias, Tensor) and attn_bias.numel() else None
    return _attention_gradients(grad_out, query, key, value, bias, is_causal, scale)[:3]


def _flash_backward(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, _out: object, _logsumexp: object,
    _cum_seq_q: object, _cum_seq_k: object, _max_q: int, _max_k: int, _dropout: float, is_causal: bool,
    _philox_seed: object, _philox_offset: object, *, scale: float | None = None,
) -> object:  # fmt: skip
    return _attention_gradients(grad_out, query, key, value, None, is_causal, scale)[:3]


def _efficient_backward(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, attn_bias: Tensor, _out: object,
    _logsumexp: object, _philox_seed: object, _philox_offset: object, _dropout: float,
    _grad_input_mask: object, is_causal: bool = False, *, scale: float | None = None,
) -> object:  # fmt: skip
    bias = attn_bias if isinstance(attn_bias, Tensor) and attn_bias.numel() else None
    return _attention_gradients(grad_out, query, key, value, bias, is_causal, scale)


_OPERATORS: dict[str, Callable[..., object]] = {
    "_scaled_dot_product_cudnn_attention": _cudnn_attention,
    "_scaled_dot_product_flash_attention": _flash_attention,
    "_scaled_dot_product_efficient_attention": _efficient_attention,
    "_scaled_dot_product_cudnn_attention_backward": _cudnn_backward,
    "_scaled_dot_product_flash_attention_backward": _flash_backward,
    "_scaled_dot_product_efficient_attention_backward": _efficient_backward,
}
"""Operators that only GPUs have, by their definition (torch/nn/functional.py:
scaled_dot_product_attention); shapes and strides as meta registrations give them."""
