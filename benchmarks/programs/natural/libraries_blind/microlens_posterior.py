"""Amortised posterior for single-lens microlensing events with a neural spline flow (nflows).

Simulator: Paczynski light curves with blending, Gaussian photometry noise and a survey-like cadence.
Network:   1d conv summary net + conditional autoregressive rational-quadratic spline flow.
"""

import math
import time

import torch
import torch.nn as nn
from nflows.distributions.normal import StandardNormal
from nflows.flows.base import Flow
from nflows.transforms.autoregressive import (
    MaskedPiecewiseRationalQuadraticAutoregressiveTransform,
)
from nflows.transforms.base import CompositeTransform
from nflows.transforms.permutations import RandomPermutation

N_EPOCHS_LC = 128  # photometric points per event
DIM = 5  # log tE, u0, t0, f_source, log noise
CONTEXT = 48
BATCH = 256
STEPS = 100

names = ["log_tE", "u0", "t0", "f_s", "log_sig"]


def sample_prior(n, gen):
    log_te = 1.3 + 0.35 * torch.randn(n, generator=gen)
    u0 = torch.rand(n, generator=gen) * 1.2 + 0.01
    t0 = 60.0 + 25.0 * torch.randn(n, generator=gen)
    f_s = torch.rand(n, generator=gen) * 0.9 + 0.1
    log_sig = -2.0 + 0.3 * torch.randn(n, generator=gen)
    return torch.stack([log_te, u0, t0, f_s, log_sig], dim=1)


def simulate(theta, times, gen):
    log_te, u0, t0, f_s, log_sig = theta.unbind(1)
    tau = (times[None] - t0[:, None]) / (10.0**log_te)[:, None]
    u2 = u0[:, None] ** 2 + tau**2
    amp = (u2 + 2.0) / torch.sqrt(u2 * (u2 + 4.0))
    flux = f_s[:, None] * amp + (1.0 - f_s)[:, None]
    sig = (10.0**log_sig)[:, None] * torch.sqrt(flux)
    flux = flux + sig * torch.randn(flux.shape, generator=gen)
    return torch.stack([torch.log(flux.clamp_min(0.05)), torch.log(sig)], dim=1)


class SummaryNet(nn.Module):
    def __init__(self, context):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(2, 24, 7, padding=3),
            nn.GELU(),
            nn.AvgPool1d(2),
            nn.Conv1d(24, 32, 5, padding=2),
            nn.GELU(),
            nn.AvgPool1d(2),
            nn.Conv1d(32, 48, 5, padding=2),
            nn.GELU(),
            nn.AvgPool1d(4),
            nn.Flatten(),
            nn.Linear(48 * (N_EPOCHS_LC // 16), 96),
            nn.GELU(),
            nn.Linear(96, context),
        )

    def forward(self, x):
        return self.net(x)


def build_flow():
    layers = []
    for _ in range(4):
        layers.append(RandomPermutation(features=DIM))
        layers.append(
            MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
                features=DIM,
                hidden_features=64,
                context_features=CONTEXT,
                num_bins=10,
                tails="linear",
                tail_bound=3.0,
                num_blocks=2,
                use_residual_blocks=True,
                activation=torch.nn.functional.gelu,
            )
        )
    return Flow(CompositeTransform(layers), StandardNormal([DIM]), embedding_net=SummaryNet(CONTEXT))


def main():
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(3)
    # nightly cadence with weather gaps
    times = torch.sort(torch.rand(N_EPOCHS_LC, generator=gen) * 120.0).values

    ref = sample_prior(4000, gen)
    mean, std = ref.mean(0), ref.std(0)

    flow = build_flow()
    opt = torch.optim.AdamW(flow.parameters(), lr=1e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2e-3, total_steps=STEPS)
    print(f"flow parameters: {sum(p.numel() for p in flow.parameters()):,}")

    @torch.compile
    def nll(theta, x):
        return -flow.log_prob(theta, context=x).mean()

    t_start = time.perf_counter()
    running = None
    for step in range(STEPS):
        theta = sample_prior(BATCH, gen)
        x = simulate(theta, times, gen)
        loss = nll((theta - mean) / std, x)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
        opt.step()
        sched.step()
        running = loss.item() if running is None else 0.9 * running + 0.1 * loss.item()
        if step % 20 == 0 or step == STEPS - 1:
            print(
                f"step {step:4d}  nll {running:7.3f}  lr {sched.get_last_lr()[0]:.2e}  "
                f"{(time.perf_counter() - t_start):6.2f}s"
            )

    # posterior of one held-out event
    flow.eval()
    theta_o = torch.tensor([[1.4, 0.15, 66.0, 0.85, -2.1]])  # a bright, well covered event
    x_o = simulate(theta_o, times, gen)
    with torch.no_grad():
        draws = flow.sample(2000, context=x_o)[0] * std + mean
        held = sample_prior(1024, gen)
        test = nll((held - mean) / std, simulate(held, times, gen)).item()
    for i, n in enumerate(names):
        q = torch.quantile(draws[:, i], torch.tensor([0.16, 0.5, 0.84]))
        print(f"{n:8s} true {theta_o[0, i]:7.3f}   posterior {q[1]:7.3f} [{q[0]:.3f}, {q[2]:.3f}]")
    base = 0.5 * DIM * (1.0 + math.log(2 * math.pi))
    print(f"held-out nll {test:.3f}   (prior entropy about {base:.3f})")


if __name__ == "__main__":
    main()
