"""Neural CDE classifier of clockwise against anticlockwise spirals (torchcde on torchdiffeq)."""

import math
import time

import torch
import torch.nn.functional as F
import torchcde

torch.manual_seed(0)
torch.set_num_threads(2)

LENGTH, BATCH, HIDDEN = 50, 64, 16
WARMUP, STEPS = 4, 12


class CDEFunc(torch.nn.Module):
    def __init__(self, input_channels, hidden_channels):
        super().__init__()
        self.input_channels = input_channels
        self.hidden_channels = hidden_channels
        self.linear1 = torch.nn.Linear(hidden_channels, 64)
        self.linear2 = torch.nn.Linear(64, input_channels * hidden_channels)

    def forward(self, t, z):
        z = self.linear1(z).relu()
        z = self.linear2(z).tanh()
        return z.view(z.size(0), self.hidden_channels, self.input_channels)


class NeuralCDE(torch.nn.Module):
    def __init__(self, input_channels, hidden_channels, output_channels):
        super().__init__()
        self.func = CDEFunc(input_channels, hidden_channels)
        self.initial = torch.nn.Linear(input_channels, hidden_channels)
        self.readout = torch.nn.Linear(hidden_channels, output_channels)

    def forward(self, coeffs):
        X = torchcde.CubicSpline(coeffs)
        z0 = self.initial(X.evaluate(X.interval[0]))
        z_T = torchcde.cdeint(
            X=X, z0=z0, func=self.func, t=X.interval, adjoint=False, method="rk4", options=dict(step_size=3.5)
        )
        return self.readout(z_T[:, 1])


def get_data(n):
    t = torch.linspace(0.0, 4 * math.pi, LENGTH)
    start = torch.rand(n) * 2 * math.pi
    x = torch.cos(start[:, None] + t[None]) / (1 + 0.5 * t)
    y = torch.sin(start[:, None] + t[None]) / (1 + 0.5 * t)
    label = torch.zeros(n)
    label[: n // 2] = 1
    x[: n // 2] *= -1
    x = x + 0.01 * torch.randn_like(x)
    y = y + 0.01 * torch.randn_like(y)
    X = torch.stack([t.expand(n, LENGTH), x, y], dim=2)
    perm = torch.randperm(n)
    return X[perm], label[perm]


def main():
    X, y = get_data(512)
    coeffs = torchcde.hermite_cubic_coefficients_with_backward_differences(X)
    model = NeuralCDE(3, HIDDEN, 1)
    optim = torch.optim.Adam(model.parameters(), lr=4e-3)
    compiled = torch.compile(model)
    gen = torch.Generator().manual_seed(1)

    def step():
        pick = torch.randint(0, len(y), (BATCH,), generator=gen)
        pred = compiled(coeffs[pick]).squeeze(-1)
        loss = F.binary_cross_entropy_with_logits(pred, y[pick])
        loss.backward()
        optim.step()
        optim.zero_grad()
        return loss.detach()

    t0 = time.perf_counter()
    for _ in range(WARMUP):
        step()
    print(f"warm-up {time.perf_counter() - t0:.1f} s")
    times = []
    for _ in range(STEPS):
        t0 = time.perf_counter()
        loss = step()
        times.append(time.perf_counter() - t0)
    print(f"time per step {1e3 * sorted(times)[STEPS // 2]:.2f} ms")
    with torch.no_grad():
        acc = ((model(coeffs).squeeze(-1) > 0) == (y > 0.5)).float().mean()
    print(f"loss {loss.item():.4f} accuracy {acc.item():.3f}")


if __name__ == "__main__":
    main()
