"""Water quality of lakes from satellite reflectance with a conditional invertible network (FrEIA).

A bio-optical model simulates the remote sensing reflectance of lakes with known chlorophyll, CDOM, suspended matter,
depth, bottom albedo and backscatter slope. The cINN learns the posterior of these six given 30 bands.
"""

import math
import time

import FrEIA.framework as Ff
import FrEIA.modules as Fm
import torch
from torch import nn

N_PARAM = 6
N_BANDS = 30
BATCH = 512
STEPS = 150


def reflectance(params, noise=0.02):
    """Gordon-type shallow water reflectance. params: standard normal (n, 6)."""
    wl = torch.linspace(410.0, 755.0, N_BANDS)
    chl = torch.exp(1.2 + 1.0 * params[:, 0:1])
    cdom = torch.exp(-1.2 + 0.8 * params[:, 1:2])
    tss = torch.exp(0.8 + 0.9 * params[:, 2:3])
    depth = torch.exp(1.0 + 0.6 * params[:, 3:4])
    albedo = torch.sigmoid(-1.2 + 0.7 * params[:, 4:5])
    slope = 0.8 + 0.3 * params[:, 5:6]

    a_w = 0.005 + 2.6 * torch.exp(-(((wl - 755.0) / 60.0) ** 2)) + 0.3 * torch.sigmoid((wl - 600.0) / 8.0)
    a_ph = 0.05 * torch.exp(-(((wl - 440.0) / 32.0) ** 2)) + 0.024 * torch.exp(-(((wl - 676.0) / 11.0) ** 2))
    a = (
        a_w
        + chl**0.65 * a_ph
        + cdom * torch.exp(-0.015 * (wl - 440.0))
        + 0.04 * tss * torch.exp(-0.011 * (wl - 440))
    )
    bb = 0.0014 * (500.0 / wl) ** 4.3 + 0.0086 * tss * (555.0 / wl).pow(slope)
    u = bb / (a + bb)
    deep = (0.089 + 0.125 * u) * u
    kd = 1.05 * (a + bb)
    rrs = deep * (1 - torch.exp(-2.2 * kd * depth)) + albedo / math.pi * torch.exp(-2.1 * kd * depth)
    return rrs * (1 + noise * torch.randn_like(rrs))


def subnet(c_in, c_out):
    return nn.Sequential(
        nn.Linear(c_in, 160), nn.ReLU(), nn.Linear(160, 160), nn.ReLU(), nn.Linear(160, c_out)
    )


class LakeINN(nn.Module):
    def __init__(self, blocks=8, n_cond=48):
        super().__init__()
        self.features = nn.Sequential(
            nn.Linear(N_BANDS, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, n_cond)
        )
        self.inn = Ff.SequenceINN(N_PARAM)
        for _ in range(blocks):
            self.inn.append(
                Fm.AllInOneBlock,
                cond=0,
                cond_shape=(n_cond,),
                subnet_constructor=subnet,
                permute_soft=True,
                affine_clamping=1.9,
            )
        self.register_buffer("mean", torch.zeros(N_BANDS))
        self.register_buffer("std", torch.ones(N_BANDS))

    def condition(self, spectra):
        return self.features((torch.log(spectra.clamp_min(1e-5)) - self.mean) / self.std)

    def forward(self, params, spectra):
        z, log_jac = self.inn(params, c=[self.condition(spectra)])
        return z, log_jac

    @torch.no_grad()
    def posterior(self, spectra, n):
        c = self.condition(spectra).repeat_interleave(n, dim=0)
        z = torch.randn(c.shape[0], N_PARAM)
        params, _ = self.inn(z, c=[c], rev=True)
        return params.view(spectra.shape[0], n, N_PARAM)


def main():
    torch.manual_seed(4)
    truth = torch.randn(40000, N_PARAM)
    spectra = reflectance(truth)
    model = LakeINN()
    model.mean.copy_(torch.log(spectra.clamp_min(1e-5)).mean(0))
    model.std.copy_(torch.log(spectra.clamp_min(1e-5)).std(0))

    net = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 2e-3, total_steps=STEPS)
    start = time.time()
    for step in range(STEPS):
        idx = torch.randint(0, truth.shape[0], (BATCH,))
        z, log_jac = net(truth[idx], spectra[idx])
        loss = (0.5 * z.square().sum(1) - log_jac).mean() / N_PARAM
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        sched.step()
        if step % 30 == 0 or step == STEPS - 1:
            print(f"step {step:4d}  nll/dim {loss.item():.4f}")
    print(f"training {time.time() - start:.1f} s")

    # posterior of a few lakes
    model.eval()
    posterior = torch.compile(model.posterior)
    errors, inside = [], []
    for lake in range(25):
        p = torch.randn(8, N_PARAM)
        samples = posterior(reflectance(p), 256)
        lo, hi = torch.quantile(samples, torch.tensor([0.05, 0.95]), dim=1)
        inside.append(((p > lo) & (p < hi)).float().mean(0))
        errors.append((samples.median(1).values - p).abs().mean(0))
    names = ["chl", "cdom", "tss", "depth", "albedo", "slope"]
    err, cov = torch.stack(errors).mean(0), torch.stack(inside).mean(0)
    for n, e, c in zip(names, err.tolist(), cov.tolist()):
        print(f"{n:7s} median error {e:.3f} sd   90% interval covers {c:.2f}")


if __name__ == "__main__":
    main()
