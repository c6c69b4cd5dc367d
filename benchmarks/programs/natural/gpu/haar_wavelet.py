"""Multi-level 2-d wavelet shrinkage denoising written with slices."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def analyse(x):
    a, b = x[..., ::2, :], x[..., 1::2, :]
    lo, hi = (a + b) * 0.70710678, (a - b) * 0.70710678

    def split(y):
        c, d = y[..., ::2], y[..., 1::2]
        return (c + d) * 0.70710678, (c - d) * 0.70710678

    ll, lh = split(lo)
    hl, hh = split(hi)
    return ll, (lh, hl, hh)


def synthesise(ll, details):
    lh, hl, hh = details

    def join(a, b):
        out = torch.empty(*a.shape[:-1], 2 * a.shape[-1], device=a.device, dtype=a.dtype)
        out[..., ::2] = (a + b) * 0.70710678
        out[..., 1::2] = (a - b) * 0.70710678
        return out

    lo, hi = join(ll, lh), join(hl, hh)
    out = torch.empty(*lo.shape[:-2], 2 * lo.shape[-2], lo.shape[-1], device=lo.device, dtype=lo.dtype)
    out[..., ::2, :] = (lo + hi) * 0.70710678
    out[..., 1::2, :] = (lo - hi) * 0.70710678
    return out


def denoise(x, levels=3):
    stack = []
    ll = x
    for _ in range(levels):
        ll, det = analyse(ll)
        stack.append(det)
    sigma = stack[0][2].abs().flatten(1).median(1).values / 0.6745
    t = sigma[:, None, None, None] * 2.5
    for det in reversed(stack):
        ll = synthesise(ll, tuple(d.sign() * (d.abs() - t).clamp(min=0) for d in det))
    return ll


def build(device, compiled):
    torch.manual_seed(0)
    side = pick(1024, 32)
    x = torch.randn(pick(16, 2), 1, side, side, device=device)
    run = torch.compile(denoise, backend=BACKEND) if compiled else denoise

    def step():
        return run(x)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
