"""Graph transformer (Graphormer style) for the HOMO-LUMO gap of oligomers: dense attention between all atoms of a
molecule, biased by learned scalars per shortest-path distance and per bond type."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cpu" if SMOKE else "cuda"
BATCH, ATOMS = (3, 12) if SMOKE else (256, 96)
DIM, HEADS, LAYERS = (32, 4, 2) if SMOKE else (256, 8, 6)
STEPS = 3 if SMOKE else 300
MAX_DIST = 20  # distances above are clipped
N_BOND = 5  # none, single, double, triple, aromatic
N_ELEM, N_DEGREE = 12, 8


def make_molecules(count, gen):
    """Chain-like molecules with branches; padded to ATOMS. Shortest paths by repeated boolean products."""
    size = torch.randint(ATOMS // 2, ATOMS + 1, (count,), generator=gen)
    bond = torch.zeros(count, ATOMS, ATOMS, dtype=torch.long)
    kind = torch.randint(1, N_BOND, (count, ATOMS), generator=gen)
    back = (torch.rand(count, ATOMS, generator=gen) ** 3 * 4).long() + 1
    rows = torch.arange(count)
    for a in range(1, ATOMS):
        parent = (a - back[:, a]).clamp_min(0)
        alive = (a < size).long()
        bond[rows, a, parent] = kind[:, a] * alive
        bond[rows, parent, a] = kind[:, a] * alive
    bond = bond.to(DEV)
    size = size.to(DEV)
    adj = (bond > 0).float()
    dist = torch.full((count, ATOMS, ATOMS), MAX_DIST, device=DEV)
    reach = torch.eye(ATOMS, device=DEV).expand(count, -1, -1).clone()
    dist[reach > 0] = 0
    for d in range(1, MAX_DIST):
        new = ((reach @ adj + reach) > 0) & (reach == 0)
        dist[new] = d
        reach = torch.maximum(reach, new.float())
    mask = torch.arange(ATOMS, device=DEV)[None] < size[:, None]
    elem = torch.randint(1, N_ELEM, (count, ATOMS), generator=gen).to(DEV) * mask
    degree = adj.sum(-1).long().clamp_max(N_DEGREE - 1)
    conj = (bond >= 2).float().sum((1, 2)) / size
    hetero = (elem > 7).float().sum(1) / size
    gap = 6.0 - 1.8 * conj + 0.9 * hetero
    return dict(elem=elem, degree=degree, dist=dist.long(), bond=bond, mask=mask), gap


class PairBias(nn.Module):
    """Spatial and bond encodings, shared by all layers."""

    def __init__(self):
        super().__init__()
        self.spatial = nn.Embedding(MAX_DIST + 1, HEADS)
        self.bond = nn.Embedding(N_BOND, HEADS)
        nn.init.normal_(self.spatial.weight, std=0.02)
        nn.init.normal_(self.bond.weight, std=0.02)

    def forward(self, dist, bond):
        bias = self.spatial(dist) + self.bond(bond)
        return bias.permute(0, 3, 1, 2)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.proj = nn.Linear(DIM, DIM)
        self.ff = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))

    def forward(self, x, bias):
        b, n, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * (DIM // HEADS) ** -0.5 + bias
        y = scores.softmax(-1).to(v.dtype) @ v
        x = x + self.proj(y.transpose(1, 2).reshape(b, n, DIM))
        return x + self.ff(self.n2(x))


class Graphormer(nn.Module):
    def __init__(self):
        super().__init__()
        self.elem = nn.Linear(N_ELEM, DIM)
        self.degree = nn.Linear(N_DEGREE, DIM)
        self.pair = PairBias()
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, 1)

    def forward(self, elem, degree, dist, bond, mask):
        x = self.elem(F.one_hot(elem, N_ELEM).float()) + self.degree(F.one_hot(degree, N_DEGREE).float())
        bias = self.pair(dist, bond)
        bias = bias.masked_fill(~mask[:, None, None, :], -1e4)
        for layer in self.layers:
            x = layer(x, bias)
        x = self.norm(x) * mask[..., None]
        return self.head(x.sum(1) / mask.sum(1, keepdim=True)).squeeze(-1)


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(5)
    pool = [make_molecules(BATCH, gen) for _ in range(2 if SMOKE else 4)]
    mean, std = pool[0][1].mean(), pool[0][1].std()

    model = Graphormer().to(DEV)
    model.compile()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 1e-3, total_steps=STEPS)

    seen, start = 0, time.perf_counter()
    for step in range(STEPS):
        feats, gap = pool[step % len(pool)]
        with torch.autocast(DEV, dtype=torch.bfloat16):
            pred = model(**feats)
        loss = F.l1_loss(pred.float(), (gap - mean) / std)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        sched.step()
        seen += BATCH
        if step % 25 == 0 or step == STEPS - 1:
            print(
                f"step {step:4d}  MAE {loss.item() * std.item():.4f} eV  {seen / (time.perf_counter() - start):.0f} mol/s"
            )


if __name__ == "__main__":
    main()
