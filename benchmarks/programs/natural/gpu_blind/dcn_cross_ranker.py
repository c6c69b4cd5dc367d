"""Ranks candidate adverts with a deep-and-cross network in bfloat16 on looked-up features."""

import torch
import torch.nn as nn

dev = "cuda"
torch.manual_seed(0)
fields, rows, width, dense, batch = 24, 20_000, 32, 64, 16384
total = fields * width + dense


class CrossRanker(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(fields * rows, width)
        self.register_buffer("offset", torch.arange(fields) * rows)
        self.cross = nn.ModuleList(nn.Linear(total, total) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(total) for _ in range(3))
        self.deep = nn.Sequential(nn.Linear(total, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU())
        self.out = nn.Linear(total + 512, 2)

    def forward(self, ids, nums):
        e = self.table(ids + self.offset).flatten(1)
        x0 = torch.cat([e, torch.sign(nums) * torch.log1p(nums.abs())], 1)
        x = x0
        for lin, norm in zip(self.cross, self.norms):
            x = norm(x0 * lin(x) + x)
        y = self.out(torch.cat([x, self.deep(x0)], 1))
        click, buy = torch.sigmoid(y.float()).unbind(-1)
        return click * buy


net = torch.compile(CrossRanker().to(dev, torch.bfloat16).eval())
ids = torch.randint(0, rows, (batch, fields), device=dev)
nums = (torch.randn(batch, dense, device=dev) * 50).to(torch.bfloat16)
with torch.no_grad():
    for _ in range(50):
        score = net(ids, nums)
print(score.mean().item())
