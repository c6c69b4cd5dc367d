"""Attention by its definition: the reference of a fused operator, and its stand-in where no GPU is."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, causal: bool, scale: float | None
) -> tuple[Tensor, Tensor]:
    """softmax(q k^T * scale + bias) v, of shape (..., L, Ev), and its log-sum-exp, of shape (..., L).

    The causal mask is aligned to the top left, as torch.nn.functional.scaled_dot_product_attention
    defines it. Fewer key than query heads are repeated (grouped-query attention).
    """
    groups = query.shape[-3] // key.shape[-3] if query.dim() > 2 else 1
    if groups > 1:
        key, value = (tensor.repeat_interleave(groups, -3) for tensor in (key, value))
    scores = query @ key.transpose(-1, -2) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if bias is not None:
        scores = torch.where(bias, scores, -math.inf) if bias.dtype == torch.bool else scores + bias
    if causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = torch.where(allowed, scores, -math.inf)
    return torch.softmax(scores, -1) @ value, torch.logsumexp(scores, -1)
