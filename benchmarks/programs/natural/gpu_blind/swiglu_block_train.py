"""Trains a stack of pre-norm gated feed-forward blocks on token features under bfloat16 autocast."""

import torch
import torch.nn as nn
import torch.nn.functional as F

dev = "cuda"
torch.manual_seed(0)
dim, hidden, tokens = 1024, 2816, 8192


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        f = x.float()
        h = (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale).to(x.dtype)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


model = nn.Sequential(Gated(), Gated(), Gated()).to(dev)
fast = torch.compile(model)
opt = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
x = torch.randn(tokens, dim, device=dev)
goal = torch.tanh(torch.randn(tokens, dim, device=dev))
for _ in range(40):
    opt.zero_grad(set_to_none=True)
    with torch.autocast("cuda", torch.bfloat16):
        out = fast(x)
    loss = F.mse_loss(out.float(), goal)
    loss.backward()
    opt.step()
print(loss.item())
