"""DDSP-style decoder: a small MLP maps (f0, loudness) frames to harmonic amplitudes,
which drive an additive oscillator bank. Renders a set of half-second notes."""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)

SR = 16000
FRAME_RATE = 100
N_HARM = 40
SECONDS = 0.5


def mlp(n_in, hidden, depth):
    layers = []
    for i in range(depth):
        layers += [nn.Linear(n_in if i == 0 else hidden, hidden), nn.LayerNorm(hidden), nn.LeakyReLU()]
    return nn.Sequential(*layers)


def modified_sigmoid(x):
    return 2.0 * torch.sigmoid(x) ** math.log(10.0) + 1e-7


class HarmonicDecoder(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.f0_net = mlp(1, hidden, 2)
        self.ld_net = mlp(1, hidden, 2)
        self.mix = mlp(2 * hidden, hidden, 1)
        self.head = nn.Linear(hidden, N_HARM + 1)

    def forward(self, f0, loudness):
        z_f = self.f0_net(torch.log2(f0 / 440.0))
        z_l = self.ld_net(loudness)
        out = modified_sigmoid(self.head(self.mix(torch.cat([z_f, z_l], -1))))
        return out[..., :1], out[..., 1:]


class OscillatorBank(nn.Module):
    def __init__(self, sr, hop):
        super().__init__()
        self.sr, self.hop = sr, hop
        self.register_buffer("harmonics", torch.arange(1, N_HARM + 1).float())

    def upsample(self, x):
        y = F.interpolate(x.transpose(1, 2), scale_factor=float(self.hop), mode="linear", align_corners=False)
        return y.transpose(1, 2)

    def forward(self, f0, total_amp, distribution):
        freqs = f0 * self.harmonics
        # remove everything above Nyquist, then renormalise
        distribution = torch.where(freqs < self.sr / 2, distribution, torch.zeros_like(distribution))
        distribution = distribution / distribution.sum(-1, keepdim=True).clamp(min=1e-6)
        amps = self.upsample(total_amp * distribution)
        freqs = self.upsample(freqs)
        phase = torch.cumsum(2 * math.pi * freqs / self.sr, dim=1)
        phase = phase % (2 * math.pi)
        return (amps * torch.sin(phase)).sum(-1)


class Synth(nn.Module):
    def __init__(self):
        super().__init__()
        self.decoder = HarmonicDecoder()
        self.bank = OscillatorBank(SR, SR // FRAME_RATE)

    def forward(self, f0, loudness):
        amp, dist = self.decoder(f0, loudness)
        return self.bank(f0, amp, dist)


def note(gen, n_frames):
    base = 110.0 * 2 ** (3 * torch.rand(1, 1, 1, generator=gen))
    t = torch.linspace(0, SECONDS, n_frames)[None, :, None]
    vibrato = 2 ** (0.02 * torch.sin(2 * math.pi * 5.5 * t))
    loud = torch.exp(-2.5 * t) * (1 - torch.exp(-40 * t))
    return base * vibrato, loud


@torch.inference_mode()
def main():
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(4)
    synth = Synth().eval()
    render = torch.compile(synth)
    notes = [note(gen, int(SECONDS * FRAME_RATE)) for _ in range(40)]

    for f0, ld in notes[:3]:
        render(f0, ld)

    audio = []
    t0 = time.perf_counter()
    for f0, ld in notes:
        audio.append(render(f0, ld))
    dt = time.perf_counter() - t0

    audio = torch.cat(audio)
    print(f"{audio.shape[0]} notes, rms {audio.pow(2).mean().sqrt():.5f}, peak {audio.abs().max():.4f}")
    print(f"{1e3 * dt / len(notes):.2f} ms per note, {len(notes) * SECONDS / dt:.1f}x real time")


if __name__ == "__main__":
    main()
