"""Rolling risk report for a book of assets: VaR, volatility, beta, drawdown."""

import os
import time

import torch

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

ASSETS = max(8, int(384 * SCALE))
DAYS = 4096
WINDOW = 60
STRIDE = 5


def rolling_sum(x, window):
    c = torch.cumsum(x, dim=-1, dtype=torch.float64)
    c = torch.nn.functional.pad(c, (1, 0))
    return (c[..., window:] - c[..., :-window]).float()


@torch.compile
def risk_report(prices, weights):
    ret = torch.log(prices[:, 1:] / prices[:, :-1])
    market = weights @ ret

    # moments and beta on every day
    s1 = rolling_sum(ret, WINDOW)
    s2 = rolling_sum(ret * ret, WINDOW)
    m1 = rolling_sum(market, WINDOW)
    m2 = rolling_sum(market * market, WINDOW)
    sm = rolling_sum(ret * market, WINDOW)
    var = (s2 - s1 * s1 / WINDOW) / (WINDOW - 1)
    vol = torch.sqrt(var.clamp(min=0) * 252)
    mvar = (m2 - m1 * m1 / WINDOW) / (WINDOW - 1)
    beta = (sm - s1 * m1 / WINDOW) / (WINDOW - 1) / mvar.clamp(min=1e-12)

    # order statistics on every fifth day
    win = ret.unfold(-1, WINDOW, STRIDE)
    ordered = torch.sort(win, dim=-1).values
    k = int(0.05 * WINDOW)
    var95 = -ordered[..., k]
    shortfall = -ordered[..., :k].mean(-1)
    med = ordered[..., WINDOW // 2]
    mad = (win - med[..., None]).abs().median(-1).values

    # drawdown from the running peak
    peak = torch.cummax(prices, dim=-1).values
    drawdown = 1 - prices / peak
    under = (drawdown > 0.1).float().mean(-1)

    rank = torch.argsort(torch.argsort(vol[:, -1]))
    return vol, beta, var95, shortfall, mad, drawdown.amax(-1), under, rank


def make_prices(gen):
    common = torch.randn(1, DAYS, generator=gen) * 0.008
    own = torch.randn(ASSETS, DAYS, generator=gen) * 0.012
    load = 0.5 + torch.rand(ASSETS, 1, generator=gen)
    return (100 * torch.exp(torch.cumsum(load * common + own, 1))).to(device)


def sync():
    if device == "cuda":
        torch.cuda.synchronize()


def main():
    gen = torch.Generator().manual_seed(9)
    books = [make_prices(gen) for _ in range(4)]
    weights = torch.rand(ASSETS, generator=gen).to(device)
    weights = weights / weights.sum()

    for b in books:
        risk_report(b, weights)
    sync()
    steps = 60
    t0 = time.perf_counter()
    acc = torch.zeros(4, device=device)
    for i in range(steps):
        vol, beta, var95, es, mad, mdd, under, rank = risk_report(books[i % 4], weights)
        acc += torch.stack([vol.mean(), beta.mean(), es.mean(), mdd.mean()])
    sync()
    dt = (time.perf_counter() - t0) / steps
    names = ["vol", "beta", "shortfall", "max drawdown"]
    print(", ".join(f"{n} {v:.4f}" for n, v in zip(names, (acc / steps).tolist())))
    print(f"mad {mad.mean().item():.5f}, under water {under.mean().item():.3f}, top {rank.argmax().item()}")
    print(f"{dt * 1e3:.3f} ms per report")


if __name__ == "__main__":
    main()
