"""Spectral-gating noise reduction with a smoothed mask."""

import os

import torch
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def denoise(audio, window, n_fft=1024, hop=256):
    spec = torch.stft(audio, n_fft, hop, window=window, return_complex=True)
    mag = spec.abs()
    floor = mag.quantile(0.1, dim=-1, keepdim=True)
    snr = 20 * torch.log10(mag / (floor + 1e-8) + 1e-8)
    mask = torch.sigmoid((snr - 6) / 2)
    mask = F.avg_pool2d(mask[:, None], (5, 3), 1, (2, 1))[:, 0]
    return torch.istft(spec * mask, n_fft, hop, window=window, length=audio.shape[-1])


def build(device, compiled):
    torch.manual_seed(0)
    audio = torch.randn(pick(4, 1), pick(32000, 8000), device=device)
    window = torch.hann_window(1024, device=device)
    run = torch.compile(denoise, backend=BACKEND) if compiled else denoise

    def step():
        return run(audio, window)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
