"""Floating-point operations of FX nodes, by the formulas of torch.utils.flop_counter."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map


def flops_of(function: Any, args: Any, kwargs: Any, result: Any) -> int | None:
    """Operations of one call (a multiplication and an addition are two); None where there is no formula."""
    try:
        from torch.utils.flop_counter import flop_registry
    except ImportError:
        return None
    packet = getattr(function, "overloadpacket", None)
    formula = flop_registry.get(packet)
    if formula is None:
        name = getattr(packet, "__name__", "")
        if name == "_scaled_dot_product_flash_attention_for_cpu":
            query, key, value = args[:3]
            pairs = int(query.numel() // query.shape[-1] * key.shape[-2])
            return 2 * pairs * int(query.shape[-1] + value.shape[-1])
        return None
    try:
        return round(float(formula(*args, **kwargs, out_val=result)))
    except (TypeError, ValueError, AttributeError, AssertionError, RuntimeError, IndexError):
        return _by_shapes(formula, args, kwargs, result)


def _by_shapes(formula: Any, args: Any, kwargs: Any, result: Any) -> int | None:
    """Formulas of some versions take shapes in place of tensors."""
    args, kwargs, result = tree_map(
        lambda leaf: leaf.shape if isinstance(leaf, torch.Tensor) else leaf, (args, kwargs, result)
    )
    try:
        return round(float(formula(*args, **kwargs, out_shape=result)))
    except (TypeError, ValueError, AttributeError, AssertionError, RuntimeError, IndexError):
        return None
