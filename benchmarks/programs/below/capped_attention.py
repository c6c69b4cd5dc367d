"""Flex attention with a soft cap in float32, trained: forward and backward templates with products."""

import os

import torch
from torch.nn.attention.flex_attention import flex_attention

torch.set_float32_matmul_precision(os.environ.get("PRECISION", "highest"))


def capped(score, batch, head, query, key):
    return 20.0 * torch.tanh(score / 20.0)


class Attention(torch.nn.Module):
    def __init__(self, width=512, heads=8):
        super().__init__()
        self.heads = heads
        self.parts, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.parts(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return x + self.out(flex_attention(q, k, v, score_mod=capped).transpose(1, 2).flatten(2))


if __name__ == "__main__":
    model = Attention().cuda()
    compiled = torch.compile(model)
    x = torch.randn(4, 1024, 512, device="cuda")
    for _ in range(30):
        loss = compiled(x).square().mean()
        loss.backward()
        model.zero_grad()
    print(loss.item())
