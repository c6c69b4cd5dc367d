"""Where will the flock be in 20 s?  E(2)-equivariant forecast of GPS-collared sheep (egnn-pytorch)."""

import torch
import torch.nn as nn
from egnn_pytorch import EGNN

torch.manual_seed(11)
torch.set_num_threads(2)

SHEEP = 40
BATCH = 10
HIDDEN = 28
LAYERS = 3
STEPS = 60


def simulate(n_herds, steps=20, dt=1.0, seed=0):
    """Cohesion, separation and a dog that drives; returns start, velocities, traits and the place at the end."""
    g = torch.Generator().manual_seed(seed)
    pos = torch.randn(n_herds, SHEEP, 2, generator=g) * 2.0
    vel = torch.randn(n_herds, 1, 2, generator=g) * 0.1 + torch.randn(n_herds, SHEEP, 2, generator=g) * 0.03
    bold = torch.rand(n_herds, SHEEP, 1, generator=g)
    dog = torch.zeros(n_herds, SHEEP, 1)
    dog[:, 0] = 1.0
    pos[:, 0] += 5.0
    p, v = pos.clone(), vel.clone()
    for _ in range(steps):
        diff = p[:, :, None] - p[:, None]
        dist = diff.norm(dim=-1, keepdim=True).clamp(min=0.2)
        repel = (diff / dist**3).sum(2) * 0.02
        cohere = (p.mean(1, keepdim=True) - p) * 0.01
        away = p - p[:, :1]
        fear = away / away.norm(dim=-1, keepdim=True).clamp(min=0.5) ** 2 * 0.06 * (1 - 0.6 * bold)
        v = 0.9 * v + (repel + cohere + fear * (1 - dog)) * dt
        v[:, 0] = 0.05 * (p.mean(1) - p[:, 0])
        p = p + v * dt
    return pos, vel, torch.cat([bold, dog], -1), p


class HerdForecaster(nn.Module):
    def __init__(self, n_traits=2, dim=HIDDEN, depth=LAYERS):
        super().__init__()
        self.embed = nn.Linear(n_traits + 1, dim)
        self.layers = nn.ModuleList(
            [
                EGNN(
                    dim=dim,
                    m_dim=24,
                    norm_coors=True,
                    norm_feats=True,
                    soft_edges=True,
                    coor_weights_clamp_value=2.0,
                    init_eps=0.08,
                )
                for _ in range(depth)
            ]
        )
        self.drift = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, pos, vel, traits):
        speed = vel.norm(dim=-1, keepdim=True)
        h = self.embed(torch.cat([traits, speed], dim=-1))
        x = pos
        for layer in self.layers:
            h, x = layer(h, x)
        return x + self.drift(h) * vel * 10.0


model = HerdForecaster()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)


@torch.compile
def loss_fn(pos, vel, traits, target):
    pred = model(pos, vel, traits)
    err = (pred - target).square().sum(-1)
    weight = 1.0 + traits[..., 1]
    return (err * weight).sum() / weight.sum()


def main():
    pos, vel, traits, target = simulate(400)
    n_train = 360
    still = (pos + 20 * vel - target)[n_train:].norm(dim=-1).mean()
    for step in range(STEPS):
        idx = torch.randint(0, n_train, (BATCH,))
        loss = loss_fn(pos[idx], vel[idx], traits[idx], target[idx])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 10 == 9:
            print(f"step {step + 1:3d}  loss {loss.item():.4f}")

    with torch.no_grad():
        sel = slice(n_train, None)
        pred = model(pos[sel], vel[sel], traits[sel])
        print(f"mean error {(pred - target[sel]).norm(dim=-1).mean():.3f} m; dead reckoning {still:.3f} m")
        # a turned herd must give the turned forecast
        a = torch.tensor(0.7)
        rot = torch.stack([torch.stack([a.cos(), -a.sin()]), torch.stack([a.sin(), a.cos()])])
        turned = model(pos[sel] @ rot, vel[sel] @ rot, traits[sel])
        print(f"equivariance error {(turned - pred @ rot).abs().max():.2e}")


if __name__ == "__main__":
    main()
