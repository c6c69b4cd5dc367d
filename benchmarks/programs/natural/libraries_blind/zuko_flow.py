"""Density estimation with a neural spline flow (zuko) conditioned on an observation."""

import time

import torch
import zuko

torch.manual_seed(0)
torch.set_num_threads(2)

FEATURES, CONTEXT, BATCH = 6, 4, 2048
WARMUP, STEPS = 4, 15


def simulate(n, gen):
    theta = torch.rand(n, FEATURES, generator=gen) * 4 - 2
    a = theta[:, 0] * torch.sin(theta[:, 1]) + theta[:, 2]
    b = theta[:, 3] ** 2 - theta[:, 4]
    c = theta[:, 5] * theta[:, 0]
    d = theta.norm(dim=1)
    x = torch.stack([a, b, c, d], dim=1)
    return theta, x + 0.1 * torch.randn(n, CONTEXT, generator=gen)


class Posterior(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.flow = zuko.flows.NSF(
            features=FEATURES,
            context=CONTEXT,
            bins=8,
            transforms=3,
            hidden_features=(128, 128),
            activation=torch.nn.ELU,
        )

    def forward(self, theta, x):
        return -self.flow(x).log_prob(theta).mean()


def main():
    gen = torch.Generator().manual_seed(11)
    posterior = Posterior()
    opt = torch.optim.Adam(posterior.parameters(), lr=1e-3)
    nll = torch.compile(posterior)

    def step():
        theta, x = simulate(BATCH, gen)
        t0 = time.perf_counter()
        opt.zero_grad(set_to_none=True)
        loss = nll(theta, x)
        loss.backward()
        opt.step()
        return loss.detach(), time.perf_counter() - t0

    begin = time.perf_counter()
    for _ in range(WARMUP):
        step()
    print(f"warm-up {time.perf_counter() - begin:.1f} s")
    times = []
    for _ in range(STEPS):
        loss, t = step()
        times.append(t)
    print(f"time per step {sorted(times)[STEPS // 2] * 1e3:.2f} ms")
    with torch.no_grad():
        _, x = simulate(1, gen)
        draws = posterior.flow(x[0]).sample((500,))
    print(f"nll {loss.item():.4f}, posterior mean norm {draws.mean(0).norm().item():.4f}")


if __name__ == "__main__":
    main()
