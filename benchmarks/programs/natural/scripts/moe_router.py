"""A transformer feed-forward with top-2 routed experts, written with a loop over experts."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class MoE(nn.Module):
    def __init__(self, d=256, hidden=512, experts=8, k=2):
        super().__init__()
        self.gate = nn.Linear(d, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(d, hidden), nn.SiLU(), nn.Linear(hidden, d)) for _ in range(experts)
        )
        self.k = k

    def forward(self, x):
        flat = x.view(-1, x.shape[-1])
        weight, chosen = self.gate(flat).softmax(-1).topk(self.k, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            rows, slot = torch.where(chosen == e)
            if rows.numel() == 0:
                continue
            out[rows] += weight[rows, slot, None] * expert(flat[rows])
        return out.view_as(x)


class Layer(nn.Module):
    def __init__(self, d=256):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.moe = MoE(d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, 8, d // 8).permute(2, 0, 3, 1, 4)
        x = x + self.o(
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        )
        return x + self.moe(self.n2(x))


torch.manual_seed(0)
model = nn.Sequential(Layer(), Layer()).eval()
fast = torch.compile(model)
with torch.inference_mode():
    for k in range(24):
        y = fast(torch.randn(4, 96 if k % 6 else 64, 256))
print(y.mean().item())
