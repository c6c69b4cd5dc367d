"""Self-calibration of a small radio interferometer.

Sky model: point sources with flux, spectral index and a small position
error. Instrument: one complex gain per antenna and solution interval.
Both are fitted together to the observed visibilities by Adam.
"""

import math
import time

import torch
from torch import nn

N_ANT, N_TIME, N_CHAN, N_SRC = 28, 48, 16, 50
TIMES_PER_BATCH = 4
C = 299_792_458.0


def antenna_layout(gen):
    arm = torch.arange(N_ANT) % 3
    radius = 40.0 * (1 + torch.arange(N_ANT) // 3).float() ** 1.5
    angle = arm * (2 * math.pi / 3) + 0.05 * torch.randn(N_ANT, generator=gen)
    return torch.stack(
        [radius * torch.cos(angle), radius * torch.sin(angle), 0.3 * torch.randn(N_ANT, generator=gen)],
        dim=-1,
    )


def uvw_tracks(ants, dec=0.6):
    i, j = torch.triu_indices(N_ANT, N_ANT, offset=1)
    base = ants[i] - ants[j]
    ha = torch.linspace(-0.9, 0.9, N_TIME)[:, None]
    x, y, z = base[:, 0], base[:, 1], base[:, 2]
    u = torch.sin(ha) * x + torch.cos(ha) * y
    v = -math.sin(dec) * (torch.cos(ha) * x - torch.sin(ha) * y) + math.cos(dec) * z
    w = math.cos(dec) * (torch.cos(ha) * x - torch.sin(ha) * y) + math.sin(dec) * z
    return torch.stack([u, v, w], dim=-1), i, j  # (T, B, 3)


class SkyModel(nn.Module):
    def __init__(self, lm, log_flux, alpha, freqs):
        super().__init__()
        self.lm = nn.Parameter(lm.clone())
        self.log_flux = nn.Parameter(log_flux.clone())
        self.alpha = nn.Parameter(alpha.clone())
        self.register_buffer("freqs", freqs)
        self.register_buffer("rel_freq", torch.log(freqs / freqs.mean()))

    def forward(self, uvw):
        l, m = self.lm.unbind(-1)
        n = torch.sqrt(1.0 - l * l - m * m) - 1.0
        lmn = torch.stack([l, m, n], dim=-1)
        delay = uvw @ lmn.T  # (t, B, S) metres
        phase = 2 * math.pi * delay[:, :, None, :] * (self.freqs / C)[:, None]
        fringe = torch.exp(-1j * phase)  # (t, B, F, S)
        spectrum = torch.exp(self.log_flux + self.alpha * self.rel_freq[:, None])
        return (fringe * spectrum).sum(-1)  # (t, B, F)


class Instrument(nn.Module):
    def __init__(self, ant1, ant2):
        super().__init__()
        self.log_amp = nn.Parameter(torch.zeros(N_TIME // TIMES_PER_BATCH, N_ANT))
        self.phase = nn.Parameter(torch.zeros(N_TIME // TIMES_PER_BATCH, N_ANT))
        self.register_buffer("ant1", ant1)
        self.register_buffer("ant2", ant2)

    def forward(self, interval, vis):
        g = torch.polar(torch.exp(self.log_amp[interval]), self.phase[interval])
        return vis * (g[self.ant1] * g[self.ant2].conj())[None, :, None]


class Calibrator(nn.Module):
    def __init__(self, sky, instrument):
        super().__init__()
        self.sky, self.instrument = sky, instrument

    def forward(self, uvw, interval, observed, weight):
        model = self.instrument(interval, self.sky(uvw))
        r = (observed - model).abs()
        huber = torch.where(r < 1.0, 0.5 * r * r, r - 0.5)
        prior = (self.instrument.log_amp**2).mean() + 0.1 * (self.sky.alpha + 0.7).pow(2).mean()
        return (huber * weight).sum() / weight.sum() + 1e-3 * prior


def main():
    gen = torch.Generator().manual_seed(11)
    freqs = torch.linspace(1.30e9, 1.42e9, N_CHAN)
    uvw, ant1, ant2 = uvw_tracks(antenna_layout(gen))
    lm = 0.008 * torch.randn(N_SRC, 2, generator=gen)
    log_flux = 0.8 * torch.randn(N_SRC, generator=gen) - 0.5
    alpha = -0.7 + 0.2 * torch.randn(N_SRC, generator=gen)

    truth = Calibrator(SkyModel(lm, log_flux, alpha, freqs), Instrument(ant1, ant2))
    with torch.no_grad():
        truth.instrument.log_amp.copy_(0.1 * torch.randn(truth.instrument.log_amp.shape, generator=gen))
        truth.instrument.phase.copy_(0.3 * torch.randn(truth.instrument.phase.shape, generator=gen).cumsum(0))
        chunks = []
        for k in range(N_TIME // TIMES_PER_BATCH):
            rows = uvw[k * TIMES_PER_BATCH : (k + 1) * TIMES_PER_BATCH]
            vis = truth.instrument(torch.tensor(k), truth.sky(rows))
            noise = torch.randn(*vis.shape, 2, generator=gen)
            chunks.append(
                (
                    rows,
                    torch.tensor(k),
                    vis + 0.2 * torch.view_as_complex(noise),
                    (torch.rand(vis.shape, generator=gen) > 0.05).float(),
                )
            )

    start = SkyModel(
        lm + 2e-5 * torch.randn(N_SRC, 2, generator=gen),
        log_flux + 0.2 * torch.randn(N_SRC, generator=gen),
        torch.full((N_SRC,), -0.7),
        freqs,
    )
    cal = Calibrator(start, Instrument(ant1, ant2))
    objective = torch.compile(cal)
    opt = torch.optim.Adam(
        [
            {"params": [cal.sky.lm], "lr": 1e-6},
            {"params": [cal.sky.log_flux, cal.sky.alpha], "lr": 5e-3},
            {"params": cal.instrument.parameters(), "lr": 2e-2},
        ]
    )
    for cycle in range(14):
        t0, total = time.perf_counter(), 0.0
        for k in torch.randperm(len(chunks), generator=gen).tolist():
            loss = objective(*chunks[k])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.item()
        flux_err = (cal.sky.log_flux - log_flux).abs().median().item()
        print(
            f"cycle {cycle:2d}  loss {total / len(chunks):.4f}  median flux error {flux_err:.3f}  "
            f"{(time.perf_counter() - t0) / len(chunks) * 1e3:.0f} ms/interval"
        )


if __name__ == "__main__":
    main()
