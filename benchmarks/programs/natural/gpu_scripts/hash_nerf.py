"""A multi-resolution hash grid with trilinear corners and a small MLP, as in instant-ngp; one training step."""

import torch
from torch import nn

dev = "cuda"


class Hash(nn.Module):
    def __init__(self, levels=12, size=2**17, feats=2):
        super().__init__()
        self.tables = nn.Parameter(torch.randn(levels, size, feats) * 1e-2)
        self.size = size
        self.register_buffer("res", torch.tensor([int(16 * 1.45**i) for i in range(levels)]))
        self.mlp = nn.Sequential(
            nn.Linear(levels * feats, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)
        )
        self.primes = (1, 2654435761, 805459861)

    def forward(self, x):
        feats = []
        for lvl in range(self.tables.shape[0]):
            p = x * self.res[lvl]
            lo = p.floor().long()
            w = p - lo
            out = 0
            for c in range(8):
                o = [(c >> k) & 1 for k in range(3)]
                h = 0
                wt = 1.0
                for k in range(3):
                    h = h ^ ((lo[:, k] + o[k]) * self.primes[k])
                    wt = wt * (w[:, k] if o[k] else 1 - w[:, k])
                out = out + self.tables[lvl][h % self.size] * wt[:, None]
            feats.append(out)
        return self.mlp(torch.cat(feats, -1))


net = Hash().to(dev)
opt = torch.optim.Adam(net.parameters(), 1e-3)
fast = torch.compile(net)
x = torch.rand(65536, 3, device=dev)
y = torch.rand(65536, 4, device=dev)
for _ in range(40):
    loss = (fast(x) - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
