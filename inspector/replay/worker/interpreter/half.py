"""Products of half-precision matrices on a CPU, by way of float32.

A CPU multiplies float16 some hundred times slower than float32, and a GPU adds up in float32 anyway
(torch.backends.cuda.matmul): the same products in float32, rounded at the end, are nearer to what the
captured graph computed and take seconds in place of many minutes.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

_PRODUCTS = frozenset(
    {
        torch.ops.aten.mm,
        torch.ops.aten.addmm,
        torch.ops.aten.bmm,
        torch.ops.aten.baddbmm,
        torch.ops.aten.convolution,
        torch.ops.aten.convolution_backward,
    }
)


class HalfProducts(TorchDispatchMode):  # type: ignore[misc]
    """While entered, float16 products are computed in float32 and rounded; everything else is as ever."""

    supports_higher_order_operators = True

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        # A user-defined Triton kernel, a condition or a loop has no overloads.
        if getattr(func, "overloadpacket", None) not in _PRODUCTS or not any(
            isinstance(value, Tensor) and value.dtype == torch.float16 for value in args
        ):
            return func(*args, **kwargs)
        rest = {key: value for key, value in kwargs.items() if key != "out"}
        wide_args, wide_rest = tree_map_only(Tensor, _widen, (args, rest))
        result = tree_map_only(Tensor, _narrow, func.overloadpacket(*wide_args, **wide_rest))
        if "out" not in kwargs:
            return result
        out = kwargs["out"]
        assert isinstance(out, Tensor)
        return out.copy_(result)


def _widen(tensor: Tensor) -> Tensor:
    return tensor.to(torch.float32) if tensor.dtype == torch.float16 else tensor


def _narrow(tensor: Tensor) -> Tensor:
    return tensor.to(torch.float16) if tensor.dtype == torch.float32 else tensor
