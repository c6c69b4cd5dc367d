"""Attention of documents with a sliding window, by flex attention."""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

torch.manual_seed(0)
documents = torch.arange(256) // 64


def inside(batch, head, query, key):
    return (documents[query] == documents[key]) & (query >= key) & (query - key < 32)


mask = create_block_mask(inside, B=None, H=None, Q_LEN=256, KV_LEN=256, device="cpu")
attend = torch.compile(flex_attention)
with torch.no_grad():
    for _ in range(5):
        q, k, v = (torch.randn(2, 4, 256, 32) for _ in range(3))
        out = attend(q, k, v, block_mask=mask)
print(tuple(out.shape))
