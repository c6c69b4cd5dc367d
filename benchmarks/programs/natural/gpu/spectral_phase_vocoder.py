"""Time stretching by a phase vocoder and pitch-shifted resampling."""

import math
import os

import torch
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def phase_vocoder(spec, rate, hop, n_fft):
    steps = torch.arange(0, spec.shape[-1] - 1, rate, device=spec.device)
    low = steps.long()
    frac = steps - low
    a, b = spec[..., low], spec[..., low + 1]
    advance = torch.linspace(0, math.pi * hop, n_fft // 2 + 1, device=spec.device)[:, None]
    dphase = torch.angle(b) - torch.angle(a) - advance
    dphase = dphase - 2 * math.pi * torch.round(dphase / (2 * math.pi)) + advance
    first = torch.angle(spec[..., :1])
    phase = torch.cumsum(torch.cat([first, dphase[..., :-1]], -1), -1)
    mag = (1 - frac) * a.abs() + frac * b.abs()
    return torch.polar(mag, phase)


def stretch(audio, window, rate=1.25, n_fft=1024, hop=256):
    spec = torch.stft(audio, n_fft, hop, window=window, return_complex=True)
    out = torch.istft(phase_vocoder(spec, rate, hop, n_fft), n_fft, hop, window=window)
    out = F.interpolate(out[:, None], size=audio.shape[-1], mode="linear", align_corners=False)[:, 0]
    return out / out.abs().amax(-1, keepdim=True)


def build(device, compiled):
    torch.manual_seed(0)
    audio = torch.randn(pick(32, 2), 22050 * pick(8, 1), device=device)
    window = torch.hann_window(1024, device=device)
    run = torch.compile(stretch, backend=BACKEND) if compiled else stretch

    def step():
        return run(audio, window)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
