"""Liquid time-constant network for a drifting metal-oxide gas sensor array.

Sixteen sensor channels are read at 10 Hz; the network estimates the
concentrations of three gases from a window.
"""

import time

import torch
from ncps.torch import LTCCell
from ncps.wirings import AutoNCP
from torch import nn

torch.manual_seed(21)

SENSORS = 16
GASES = 3
UNITS = 64
WINDOW = 10
BATCH = 128
STEPS = 24


def make_windows(n, generator):
    """First-order sensor response to random gas puffs, with channel drift."""
    gas = torch.rand(n, 1, GASES, generator=generator).expand(n, WINDOW, GASES).clone()
    onset = torch.randint(0, WINDOW // 2, (n, 1, 1), generator=generator)
    time_idx = torch.arange(WINDOW).view(1, WINDOW, 1)
    gas = gas * (time_idx >= onset)
    mix = torch.rand(GASES, SENSORS, generator=generator)
    tau = 0.2 + 0.6 * torch.rand(SENSORS, generator=generator)
    drift = 1 + 0.1 * torch.randn(n, 1, SENSORS, generator=generator)
    state = torch.zeros(n, SENSORS)
    out = []
    for k in range(WINDOW):
        state = state + tau * (gas[:, k] @ mix - state)
        out.append(state)
    x = torch.stack(out, 1) * drift
    return x + 0.02 * torch.randn(x.shape, generator=generator), gas[:, -1]


class GasEstimator(nn.Module):
    def __init__(self):
        super().__init__()
        wiring = AutoNCP(UNITS, GASES, seed=1)
        self.cell = LTCCell(wiring, SENSORS, ode_unfolds=6, implicit_param_constraints=True)

    def forward(self, x):
        state = x.new_zeros(x.shape[0], UNITS)
        for k in range(x.shape[1]):
            y, state = self.cell(x[:, k], state, 0.1)
        return y


def main():
    gen = torch.Generator().manual_seed(2)
    x, gas = make_windows(2048, gen)

    model = GasEstimator()
    model.cell = torch.compile(model.cell)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)

    times = []
    for step in range(STEPS):
        idx = torch.randint(0, len(x), (BATCH,), generator=gen)
        t0 = time.perf_counter()
        pred = model(x[idx])
        loss = (pred - gas[idx]).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        times.append(time.perf_counter() - t0)
        if step % 4 == 0:
            print(f"step {step:3d}  mse {loss.item():.5f}")

    steady = sorted(times[2:])
    print(f"median step {1e3 * steady[len(steady) // 2]:.1f} ms")
    with torch.no_grad():
        err = (model(x[:BATCH]) - gas[:BATCH]).abs().mean(0)
    print("mean abs error per gas:", [round(e, 4) for e in err.tolist()])


if __name__ == "__main__":
    main()
