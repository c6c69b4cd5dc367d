"""Neural SDE of eye-gaze drift between saccades, trained on simulated fixations.

Drift and diffusion are small networks; paths are sampled with torchsde and
matched to recorded ones in mean, spread and lag-correlation.
"""

import time

import torch
import torchsde
from torch import nn

torch.manual_seed(3)

BATCH = 256
DIM = 4
HIDDEN = 48
T_END = 1.0
N_OUT = 16
DT = 1.0 / 60
STEPS = 60


class GazeSDE(nn.Module):
    noise_type = "diagonal"
    sde_type = "ito"

    def __init__(self, dim, hidden):
        super().__init__()
        self.drift = nn.Sequential(
            nn.Linear(dim + 1, hidden),
            nn.Softplus(),
            nn.Linear(hidden, hidden),
            nn.Softplus(),
            nn.Linear(hidden, dim),
        )
        self.diffusion = nn.Sequential(
            nn.Linear(dim + 1, hidden), nn.Softplus(), nn.Linear(hidden, dim), nn.Sigmoid()
        )

    def _with_time(self, t, y):
        return torch.cat([y, t.expand(y.shape[0], 1)], dim=1)

    def f(self, t, y):
        return self.drift(self._with_time(t, y)) - y

    def g(self, t, y):
        return 0.05 + 0.5 * self.diffusion(self._with_time(t, y))


def simulate_fixations(n, generator):
    """Two eyes, horizontal and vertical: an OU process pulled to a wandering target."""
    sub = 10
    dt = T_END / ((N_OUT - 1) * sub)
    y = 0.3 * torch.randn(n, DIM, generator=generator)
    target = 0.2 * torch.randn(n, DIM, generator=generator)
    path = [y]
    for _ in range(N_OUT - 1):
        for _ in range(sub):
            noise = torch.randn(n, DIM, generator=generator)
            y = y + dt * 4.0 * (target - y) + 0.35 * dt**0.5 * noise
            target = target + 0.1 * dt**0.5 * torch.randn(n, DIM, generator=generator)
        path.append(y)
    return torch.stack(path)


def moment_loss(sim, ref):
    mean = (sim.mean(1) - ref.mean(1)).square().mean()
    std = (sim.std(1) - ref.std(1)).square().mean()
    lag = ((sim[1:] * sim[:-1]).mean(1) - (ref[1:] * ref[:-1]).mean(1)).square().mean()
    return mean + std + lag


def main():
    gen = torch.Generator().manual_seed(5)
    data = simulate_fixations(2048, gen)
    ts = torch.linspace(0.0, T_END, N_OUT)

    sde = GazeSDE(DIM, HIDDEN)
    sde.f = torch.compile(sde.f)
    sde.g = torch.compile(sde.g)
    opt = torch.optim.Adam(sde.parameters(), lr=3e-3)

    times = []
    for step in range(STEPS):
        idx = torch.randint(0, data.shape[1], (BATCH,), generator=gen)
        ref = data[:, idx]
        t0 = time.perf_counter()
        sim = torchsde.sdeint(sde, ref[0], ts, method="euler", dt=DT)
        loss = moment_loss(sim, ref)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        times.append(time.perf_counter() - t0)
        if step % 15 == 0 or step == STEPS - 1:
            print(f"step {step:3d}  loss {loss.item():.5f}")

    steady = sorted(times[3:])
    print(f"median step {1e3 * steady[len(steady) // 2]:.1f} ms, {int(T_END / DT)} solver steps each")
    with torch.no_grad():
        paths = torchsde.sdeint(sde, data[0, :BATCH], ts, method="euler", dt=DT)
    print(f"final spread {paths[-1].std():.3f} against {data[-1].std():.3f} recorded")


if __name__ == "__main__":
    main()
