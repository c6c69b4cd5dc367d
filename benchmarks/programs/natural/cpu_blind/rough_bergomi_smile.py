"""Calibrate a rough Bergomi volatility model to short-dated implied volatilities by pathwise gradients."""

import math

import torch

torch.set_num_threads(2)

STEPS = 96
PATHS = 4096
MATURITY = 0.25


def normal_cdf(x):
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def black_call(vol, log_k, t):
    sd = vol * math.sqrt(t)
    d1 = -log_k / sd + 0.5 * sd
    return normal_cdf(d1) - torch.exp(log_k) * normal_cdf(d1 - sd)


def implied_vol(price, log_k, t, iterations=60):
    low, high = torch.full_like(price, 1e-3), torch.full_like(price, 3.0)
    for _ in range(iterations):
        mid = 0.5 * (low + high)
        above = black_call(mid, log_k, t) > price
        high = torch.where(above, mid, high)
        low = torch.where(above, low, mid)
    return 0.5 * (low + high)


def volterra(dw, hurst, dt):
    """Riemann-Liouville process by discrete convolution with optimally placed kernel nodes."""
    a = hurst - 0.5
    k = torch.arange(1, STEPS + 1, dtype=dw.dtype)
    prev = k - 1
    node = ((k ** (a + 1) - prev ** (a + 1)) / (a + 1)) ** (1 / a)
    kernel = (node * dt) ** a
    n = 2 * STEPS
    spec = torch.fft.rfft(dw, n=n) * torch.fft.rfft(kernel, n=n)
    return torch.sqrt(2 * hurst) * torch.fft.irfft(spec, n=n)[:, :STEPS]


def call_prices(params, z1, log_k):
    dt = MATURITY / STEPS
    hurst = 0.02 + 0.4 * torch.sigmoid(params[0])
    eta = torch.exp(params[1])
    rho = torch.tanh(params[2])
    xi = torch.exp(params[3])
    dw = z1 * math.sqrt(dt)
    dw = torch.cat([dw, -dw])
    y = volterra(dw, hurst, dt)
    t = torch.arange(1, STEPS + 1, dtype=z1.dtype) * dt
    v = xi * torch.exp(eta * y - 0.5 * eta**2 * t ** (2 * hurst))
    v = torch.cat([xi.expand(v.shape[0], 1), v[:, :-1]], dim=1)
    parallel = (torch.sqrt(v) * dw).sum(1)
    integrated = (v * dt).sum(1)
    # conditional on the volatility path the terminal log price is Gaussian
    forward = rho * parallel - 0.5 * integrated
    orth = torch.sqrt((1 - rho**2) * integrated)
    d1 = (forward[:, None] - log_k) / orth[:, None] + orth[:, None]
    leg1 = torch.exp(forward + 0.5 * orth**2)[:, None] * normal_cdf(d1)
    leg2 = torch.exp(log_k) * normal_cdf(d1 - orth[:, None])
    return (leg1 - leg2).mean(0)


@torch.compile
def calibration_loss(params, z1, log_k, target, vega):
    price = call_prices(params, z1, log_k)
    return (((price - target) / vega) ** 2).mean(), price


def market_smile(log_k):
    """A smile made by the same model at hidden parameters with twice the paths plus quote noise."""
    hidden = torch.tensor([-1.6, math.log(1.7), math.atanh(-0.75), math.log(0.05)], dtype=torch.float64)
    z1 = torch.randn(2 * PATHS, STEPS, dtype=torch.float64)
    price = call_prices(hidden, z1, log_k)
    vol = implied_vol(price, log_k, MATURITY) + 5e-4 * torch.randn(len(log_k), dtype=torch.float64)
    return vol, hidden


def main():
    torch.manual_seed(8)
    log_k = torch.linspace(-0.25, 0.12, 15, dtype=torch.float64)
    vol, hidden = market_smile(log_k)
    target = black_call(vol, log_k, MATURITY)
    vega = (black_call(vol + 1e-4, log_k, MATURITY) - target) / 1e-4

    start = [-0.5, math.log(1.0), math.atanh(-0.4), math.log(0.08)]
    params = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    z1 = torch.randn(PATHS, STEPS, dtype=torch.float64)
    opt = torch.optim.Adam([params], lr=0.05)
    for step in range(120):
        if step % 30 == 0:
            z1 = torch.randn_like(z1)
        opt.zero_grad()
        loss, price = calibration_loss(params, z1, log_k, target, vega)
        loss.backward()
        opt.step()
        if step % 40 == 0:
            print(f"step {step:3d}  rms vol error {math.sqrt(loss.item()) * 1e4:.1f} bp")
    fitted = implied_vol(price.detach(), log_k, MATURITY)
    print(f"worst vol gap {(fitted - vol).abs().max().item() * 1e4:.1f} bp")
    print("fitted", [round(p, 3) for p in params.tolist()], "hidden", [round(p, 3) for p in hidden.tolist()])


if __name__ == "__main__":
    main()
