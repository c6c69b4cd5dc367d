"""Rolling mean, volatility, skew, correlation and rank features of market series."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def rolling(x, window):
    return x.unfold(-1, window, 1)


def factors(close, volume, window=32):
    ret = (close[:, 1:] / close[:, :-1]).log()
    vol = volume[:, 1:]
    r, v = rolling(ret, window), rolling(vol, window)
    mean, std = r.mean(-1), r.std(-1)
    skew = (((r - mean[..., None]) / (std[..., None] + 1e-8)) ** 3).mean(-1)
    vc = v - v.mean(-1, keepdim=True)
    rc = r - mean[..., None]
    corr = (rc * vc).sum(-1) / (rc.norm(dim=-1) * vc.norm(dim=-1) + 1e-8)
    high = rolling(close[:, 1:], window).amax(-1)
    drawdown = close[:, window:] / high - 1
    rank = (r < r[..., -1:]).float().mean(-1)
    feats = torch.stack([mean, std, skew, corr, drawdown, rank], -1)
    cross_mean, cross_std = feats.mean(0, keepdim=True), feats.std(0, keepdim=True)
    return ((feats - cross_mean) / (cross_std + 1e-8)).clamp(-3, 3)


def build(device, compiled):
    torch.manual_seed(0)
    assets, days = pick(2000, 10), pick(1024, 80)
    close = 100 * torch.exp(torch.cumsum(0.01 * torch.randn(assets, days, device=device), 1))
    volume = torch.rand(assets, days, device=device) * 1e6
    run = torch.compile(factors, backend=BACKEND) if compiled else factors

    def step():
        return run(close, volume)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
