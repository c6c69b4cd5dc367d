"""Block-wise binaural rendering of several talkers in a simulated meeting room.

Every block the listener's head may have turned, so the room responses for the
old and the new orientation are both rendered and cross-faded.
"""

import math
import time

import torch
import torch.nn.functional as F

FS = 16000
BLOCK = 1024
TAPS = 2048
SOURCES = 6
YAWS = 24


def simulate_brirs(gen):
    """Binaural room responses [yaw, source, ear, taps]."""
    t = torch.arange(TAPS) / FS
    tail = torch.randn(YAWS, SOURCES, 2, TAPS, generator=gen) * torch.exp(-t * 38.0) * 0.03
    azimuth = torch.linspace(-2.4, 2.4, SOURCES)[None] - torch.linspace(0, 2 * math.pi, YAWS + 1)[:-1, None]
    for ear, sign in ((0, 1.0), (1, -1.0)):
        delay = (20 + 10 * sign * torch.sin(azimuth)).round().long()
        level = 0.6 - 0.35 * sign * torch.sin(azimuth)
        tail[:, :, ear].scatter_add_(2, delay[..., None], level[..., None])
    return tail


def make_talkers(gen, blocks):
    n = blocks * BLOCK
    t = torch.arange(n) / FS
    out = []
    for s in range(SOURCES):
        f0 = 95.0 + 31.0 * s
        voice = sum(torch.sin(2 * math.pi * f0 * h * t + h) / h for h in range(1, 9))
        gate = (torch.sin(2 * math.pi * (0.4 + 0.13 * s) * t + s) > -0.2).float()
        out.append(voice * gate + 0.01 * torch.randn(n, generator=gen))
    return torch.stack(out) * 0.1


def spatialise(signal, brir):
    """signal [S, TAPS - 1 + BLOCK], brir [S, 2, TAPS] -> [2, BLOCK]"""
    weight = brir.flip(-1).reshape(SOURCES * 2, 1, TAPS)
    wet = F.conv1d(signal[None], weight, groups=SOURCES)
    return wet.view(SOURCES, 2, -1).sum(0)


@torch.compile(fullgraph=True)
def render_block(history, block, gains, old_brir, new_brir, envelope):
    gain_ramp = torch.linspace(0, 1, BLOCK)
    gained = block * (gains[:, :1] + (gains[:, 1:] - gains[:, :1]) * gain_ramp)
    signal = torch.cat([history, gained], dim=1)

    fade = torch.sin(0.5 * math.pi * gain_ramp) ** 2
    mix = spatialise(signal, old_brir) * (1 - fade) + spatialise(signal, new_brir) * fade

    peak = mix.abs().amax()
    envelope = torch.maximum(peak, 0.92 * envelope)
    mix = torch.tanh(mix * torch.clamp(0.8 / (envelope + 1e-6), max=4.0))
    return mix, signal[:, BLOCK:], envelope


@torch.no_grad()
def main():
    gen = torch.Generator().manual_seed(11)
    warm, blocks = 4, 64
    brirs = simulate_brirs(gen)
    talkers = make_talkers(gen, warm + blocks)

    history = torch.zeros(SOURCES, TAPS - 1)
    envelope = torch.tensor(0.1)
    gains = torch.full((SOURCES, 2), 0.7)
    yaw = 0
    rendered, spent = [], 0.0
    for b in range(warm + blocks):
        new_yaw = int(YAWS * 0.5 * (1 + math.sin(0.11 * b))) % YAWS
        target = 0.5 + 0.4 * torch.sin(0.2 * b + torch.arange(SOURCES, dtype=torch.float32))
        gains = torch.stack([gains[:, 1], target], dim=1)
        block = talkers[:, b * BLOCK : (b + 1) * BLOCK]

        start = time.perf_counter()
        out, history, envelope = render_block(history, block, gains, brirs[yaw], brirs[new_yaw], envelope)
        if b >= warm:
            spent += time.perf_counter() - start
        rendered.append(out)
        yaw = new_yaw

    audio = torch.cat(rendered, dim=1)
    ild = 10 * torch.log10(audio[0].square().mean() / audio[1].square().mean())
    per_block = spent / blocks
    print(f"rendered {audio.shape[1] / FS:.2f} s, peak {audio.abs().max():.3f}, ILD {ild:.2f} dB")
    print(f"{1e3 * per_block:.2f} ms per block, {BLOCK / FS / per_block:.1f}x real time")


if __name__ == "__main__":
    main()
