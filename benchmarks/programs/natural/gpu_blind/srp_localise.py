"""Steered-response-power (SRP-PHAT) localisation of talkers in a meeting room.

Eight ceiling microphones, a dense 3-D search grid, a stream of audio blocks.
"""

import math
import os
import time

import numpy as np
import torch

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

FS = 16000
C_SOUND = 343.0
ROOM = (8.0, 6.0, 3.0)
FRAMES = 8
WIN = 2048
SHRINK = SCALE ** (1.0 / 3.0)
GRID = (max(8, int(128 * SHRINK)), max(8, int(96 * SHRINK)), max(6, int(64 * SHRINK)))
STEPS = 40


def mic_positions():
    ang = np.arange(8) * 2 * np.pi / 8
    r = np.where(np.arange(8) % 2 == 0, 1.0, 0.55)
    xyz = np.stack([ROOM[0] / 2 + r * np.cos(ang), ROOM[1] / 2 + r * np.sin(ang), np.full(8, 2.7)], axis=1)
    return torch.tensor(xyz, dtype=torch.float32)


def search_grid():
    axes = [torch.linspace(0.2, ROOM[i] - 0.2, GRID[i]) for i in range(3)]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(-1, 3)


def synth_block(mics, src, gen):
    """A white-ish source, delayed to every mic by a phase ramp, plus noise."""
    n = WIN * FRAMES
    s = torch.randn(n, generator=gen)
    spec = torch.fft.rfft(s)
    f = torch.fft.rfftfreq(n, 1.0 / FS)
    d = (mics - src).norm(dim=1) / C_SOUND
    ph = torch.exp(-2j * math.pi * f[None] * d[:, None])
    x = torch.fft.irfft(spec[None] * ph, n=n)
    x = x + 0.3 * torch.randn(x.shape, generator=gen)
    return x.reshape(len(mics), FRAMES, WIN).transpose(0, 1).contiguous()


class SRPLocaliser:
    def __init__(self, mics, grid, device):
        self.pairs = [(i, j) for i in range(len(mics)) for j in range(i + 1, len(mics))]
        self.ii = torch.tensor([p[0] for p in self.pairs], device=device)
        self.jj = torch.tensor([p[1] for p in self.pairs], device=device)
        dist = (grid[None] - mics[:, None]).norm(dim=-1) / C_SOUND
        lags = []
        for i, j in self.pairs:
            lag = torch.round((dist[i] - dist[j]) * FS).long()
            lags.append(lag % (2 * WIN))
        self.lags = torch.stack(lags).to(device)
        self.window = torch.hann_window(WIN, device=device)

    def gcc_phat(self, block):
        spec = torch.fft.rfft(block * self.window, n=2 * WIN)
        cross = spec[:, self.ii] * spec[:, self.jj].conj()
        cross = cross / (cross.abs() + 1e-8)
        return torch.fft.irfft(cross, n=2 * WIN)

    def __call__(self, block):
        gcc = self.gcc_phat(block)
        power = torch.zeros(block.shape[0], self.lags.shape[1], device=block.device)
        for p in range(len(self.pairs)):
            power = power + gcc[:, p][:, self.lags[p]].clamp(min=0.0)
        power = power / len(self.pairs)
        best = power.argmax(dim=1)
        return best, power.mean(dim=1)


def main():
    gen = torch.Generator().manual_seed(3)
    mics = mic_positions()
    grid = search_grid()
    localise = SRPLocaliser(mics, grid, DEVICE)
    localise_c = torch.compile(localise.__call__)
    grid_d = grid.to(DEVICE)

    path = [torch.tensor([2.0 + 0.4 * k, 1.5 + 0.3 * k, 1.3]) for k in range(8)]
    blocks = [synth_block(mics, p, gen).to(DEVICE) for p in path]

    estimates = []
    with torch.no_grad():
        for step in range(STEPS):
            if step == 10:
                if DEVICE == "cuda":
                    torch.cuda.synchronize()
                t0 = time.perf_counter()
            best, level = localise_c(blocks[step % len(blocks)])
            estimates.append(grid_d[best].median(dim=0).values)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    ms = (time.perf_counter() - t0) / (STEPS - 10) * 1e3

    est = torch.stack(estimates).cpu()
    truth = torch.stack([path[s % len(path)] for s in range(STEPS)])
    err = (est - truth)[:, :2].norm(dim=1).median().item()
    print(
        f"grid points {grid.shape[0]}  median xy error {err:.3f} m  "
        f"level {level.mean().item():.4f}  {ms:.2f} ms/block"
    )


if __name__ == "__main__":
    main()
