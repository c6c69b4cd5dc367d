"""Ensemble rollout of a Fourier neural operator surrogate for 2-D forced vorticity flow."""

import math
import time

import torch
import torch.nn.functional as F
from neuralop.models import FNO
from torch import nn

GRID = 64
MEMBERS = 6
HISTORY = 4
STEPS = 200


class VorticitySurrogate(nn.Module):
    """Maps the last HISTORY vorticity frames plus the forcing to the next frame."""

    def __init__(self, width: int = 32, modes: int = 20):
        super().__init__()
        self.operator = FNO(
            n_modes=(modes, modes),
            in_channels=HISTORY + 1,
            out_channels=1,
            hidden_channels=width,
            n_layers=4,
            lifting_channel_ratio=4,
            projection_channel_ratio=4,
            positional_embedding="grid",
            norm="instance_norm",
            channel_mlp_skip="soft-gating",
            fno_skip="linear",
        )

    def forward(self, frames: torch.Tensor, forcing: torch.Tensor) -> torch.Tensor:
        increment = self.operator(torch.cat([frames, forcing], dim=1))
        nxt = frames[:, -1:] + 0.1 * torch.tanh(increment)
        return nxt - nxt.mean((-2, -1), keepdim=True)


def random_vorticity(n: int, gen: torch.Generator) -> torch.Tensor:
    k = torch.fft.fftfreq(GRID, 1.0 / GRID)
    k2 = k.view(-1, 1) ** 2 + k.view(1, -1) ** 2
    spectrum = (k2 + 49.0) ** -1.25
    noise = torch.fft.fft2(torch.randn(n, 1, GRID, GRID, generator=gen))
    field = torch.fft.ifft2(noise * spectrum).real
    return field / field.std((-2, -1), keepdim=True)


def kolmogorov_forcing(n: int) -> torch.Tensor:
    y = 2 * math.pi * torch.arange(GRID) / GRID
    return (0.1 * (torch.sin(y).view(1, -1) + torch.cos(y).view(-1, 1))).expand(n, 1, GRID, GRID).contiguous()


def enstrophy(w: torch.Tensor) -> torch.Tensor:
    return 0.5 * w.square().mean((-3, -2, -1))


def radial_spectrum(w: torch.Tensor, bins: int = 16) -> torch.Tensor:
    power = torch.fft.fft2(w[:, 0]).abs().square() / GRID**4
    k = torch.fft.fftfreq(GRID, 1.0 / GRID)
    radius = (k.view(-1, 1) ** 2 + k.view(1, -1) ** 2).sqrt().long().clamp(max=bins)
    out = torch.zeros(w.shape[0], bins + 1)
    return out.index_add_(1, radius.flatten(), power.flatten(1))[:, :bins]


def main():
    torch.manual_seed(1)
    gen = torch.Generator().manual_seed(2)
    surrogate = VorticitySurrogate().eval()
    print(f"{sum(p.numel() for p in surrogate.parameters()) / 1e6:.2f} M parameters")

    base = random_vorticity(1, gen)
    drift = torch.roll(base, 1, dims=-1) - base
    frames = torch.cat([base + i * 0.2 * drift for i in range(HISTORY)], dim=1).repeat(MEMBERS, 1, 1, 1)
    frames = frames + 0.02 * random_vorticity(MEMBERS, gen)
    forcing = kolmogorov_forcing(MEMBERS)

    step_fn = torch.compile(surrogate)
    spread = []
    started = time.perf_counter()
    with torch.no_grad():
        for step in range(1, STEPS + 1):
            nxt = step_fn(frames, forcing)
            frames = torch.cat([frames[:, 1:], nxt], dim=1)
            spread.append(nxt.std(0).mean().item())
            if step % 25 == 0:
                took = (time.perf_counter() - started) / 25
                z = enstrophy(nxt)
                print(
                    f"t={step:3d}  enstrophy {z.mean():.4f} +- {z.std():.4f}  "
                    f"spread {spread[-1]:.4f}  {1e3 * took:.1f} ms/step"
                )
                started = time.perf_counter()

        spectrum = radial_spectrum(frames[:, -1:]).mean(0)
        ratio = F.normalize(spectrum, p=1, dim=0)
    print(f"energy in lowest 4 shells: {ratio[:4].sum().item():.3f}")
    print("ensemble spread growth: %.2fx" % (spread[-1] / spread[0]))


if __name__ == "__main__":
    main()
