"""Flex attention with a document mask and soft capping over packed sequences."""

import os

import torch
import torch.nn as nn

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def softcap(score, b, h, q, k):
    return 20.0 * torch.tanh(score / 20.0)


class Block(nn.Module):
    def __init__(self, dim=1024, heads=16):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = flex_attention(q, k, v, score_mod=softcap, block_mask=mask)
        return x + self.out(y.transpose(1, 2).reshape(b, t, d))


def build(device, compiled):
    torch.manual_seed(0)
    model = Block().to(device, torch.bfloat16).eval()
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    t = pick(4096, 128)
    document = torch.sort(torch.randint(8, (t,), device=device)).values

    def same_document(b, h, q, k):
        return (q >= k) & (document[q] == document[k])

    mask = create_block_mask(same_document, None, None, t, t, device=device)
    x = torch.randn(1, t, 1024, device=device, dtype=torch.bfloat16)

    @torch.no_grad()
    def step():
        return forward(x, mask)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
