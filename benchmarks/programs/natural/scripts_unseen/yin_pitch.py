"""Estimates pitch by YIN: the difference function over lags, its cumulative mean, and the first dip below a threshold."""

import torch

SR, FRAME, HOP, MAX_LAG = 16000, 1024, 256, 400


def yin(wave, threshold=0.15):
    frames = wave.unfold(-1, FRAME, HOP)
    head = frames[..., : FRAME - MAX_LAG]
    lagged = frames.unfold(-1, FRAME - MAX_LAG, 1)
    diff = (head.unsqueeze(-2) - lagged).pow(2).sum(-1)[..., :MAX_LAG]
    mean = diff[..., 1:].cumsum(-1) / torch.arange(1, MAX_LAG)
    norm = torch.cat([torch.ones_like(diff[..., :1]), diff[..., 1:] / (mean + 1e-8)], -1)
    below = (norm < threshold).float()
    first = below.argmax(-1)
    lag = torch.where(below.sum(-1) > 0, first, norm[..., 20:].argmin(-1) + 20)
    return SR / lag.clamp(min=20)


torch.manual_seed(0)
t = torch.arange(SR) / SR
voice = torch.sin(2 * torch.pi * 220 * t) + 0.05 * torch.randn(4, SR)
pitch = torch.compile(yin)
with torch.no_grad():
    for _ in range(20):
        f0 = pitch(voice)
print(f0.median().item())
