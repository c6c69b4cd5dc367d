"""The multi-resolution STFT loss of a vocoder, with its gradient to the waveform."""

import torch

dev = "cuda"
target = torch.randn(16, 65536, device=dev)
wav = torch.randn(16, 65536, device=dev, requires_grad=True)
wins = {n: torch.hann_window(n, device=dev) for n in (512, 1024, 2048)}


def mag(x, n):
    s = torch.stft(x, n, n // 4, n, wins[n], return_complex=True)
    return (s.real**2 + s.imag**2).clamp_min(1e-7).sqrt()


def loss_fn(a, b):
    total = 0.0
    for n in wins:
        x, y = mag(a, n), mag(b, n)
        sc = torch.linalg.norm(y - x) / torch.linalg.norm(y)
        lm = (y.log() - x.log()).abs().mean()
        total = total + sc + lm
    return total / len(wins)


fast = torch.compile(loss_fn)
for _ in range(60):
    loss = fast(wav, target)
    loss.backward()
    wav.grad = None
print(loss.item())
