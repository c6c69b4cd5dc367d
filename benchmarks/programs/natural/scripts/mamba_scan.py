"""A selective state-space layer, the scan written as a loop over time."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class SelectiveSSM(nn.Module):
    def __init__(self, d=128, state=8, rank=8, width=4):
        super().__init__()
        self.inp = nn.Linear(d, 2 * d, bias=False)
        self.conv = nn.Conv1d(d, d, width, groups=d, padding=width - 1)
        self.x_proj = nn.Linear(d, rank + 2 * state, bias=False)
        self.dt = nn.Linear(rank, d)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(d, 1))
        self.D = nn.Parameter(torch.ones(d))
        self.out = nn.Linear(d, d, bias=False)
        self.split = (rank, state, state)

    def forward(self, x):
        b, t, d = x.shape
        u, z = self.inp(x).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., :t].transpose(1, 2))
        dt, B, C = self.x_proj(u).split(self.split, -1)
        dt = F.softplus(self.dt(dt))
        A = -torch.exp(self.A_log)
        decay = torch.exp(dt[..., None] * A)
        drive = dt[..., None] * B[:, :, None] * u[..., None]
        h = torch.zeros(b, d, A.shape[1])
        ys = []
        for k in range(t):
            h = decay[:, k] * h + drive[:, k]
            ys.append((h * C[:, k, None]).sum(-1))
        y = torch.stack(ys, 1) + u * self.D
        return self.out(y * F.silu(z))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(256, 128)
        self.layers = nn.ModuleList(SelectiveSSM() for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(128) for _ in range(2))
        self.head = nn.Linear(128, 256)

    def forward(self, ids):
        x = self.emb(ids)
        for layer, norm in zip(self.layers, self.norms):
            x = x + layer(norm(x))
        return self.head(x)


torch.manual_seed(0)
model = LM().eval()
fast = torch.compile(model)
with torch.no_grad():
    for _ in range(25):
        out = fast(torch.randint(0, 256, (4, 48)))
print(out.mean().item())
