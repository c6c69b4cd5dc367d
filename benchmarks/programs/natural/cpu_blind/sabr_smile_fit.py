"""Calibrate SABR smiles (Hagan 2002) to a year of swaption quotes, every day and expiry at once, by Adam."""

import time

import torch
import torch.nn as nn


def hagan_vol(f, k, t, alpha, beta, rho, nu):
    """Black volatility of the SABR model; all broadcast to (days, expiries, strikes)."""
    log_fk = torch.log(f / k)
    fk = (f * k) ** (0.5 * (1 - beta))
    one = (1 - beta) ** 2
    z = nu / alpha * fk * log_fk
    root = torch.sqrt(1 - 2 * rho * z + z * z)
    x = torch.log((root + z - rho) / (1 - rho))
    # z/x(z) -> 1 at the money; the series avoids 0/0 there (and in the gradient)
    small = z.abs() < 1e-3
    safe_x = torch.where(small, torch.ones_like(x), x)
    ratio = torch.where(small, 1 - 0.5 * rho * z, z / safe_x)
    denom = fk * (1 + one / 24 * log_fk**2 + one**2 / 1920 * log_fk**4)
    drift = one / 24 * alpha**2 / fk**2 + 0.25 * rho * beta * nu * alpha / fk + (2 - 3 * rho**2) / 24 * nu**2
    return alpha / denom * ratio * (1 + drift * t)


class SmileBook(nn.Module):
    """One (alpha, rho, nu) for each day and expiry, in unconstrained coordinates."""

    def __init__(self, days, expiries, beta=0.5):
        super().__init__()
        self.log_alpha = nn.Parameter(torch.full((days, expiries, 1), -3.0))
        self.raw_rho = nn.Parameter(torch.zeros(days, expiries, 1))
        self.log_nu = nn.Parameter(torch.full((days, expiries, 1), -0.7))
        self.beta = beta

    def parameters_of_model(self):
        return self.log_alpha.exp(), 0.98 * torch.tanh(self.raw_rho), self.log_nu.exp()

    def forward(self, f, k, t, quote, vega):
        alpha, rho, nu = self.parameters_of_model()
        vol = hagan_vol(f, k, t, alpha, self.beta, rho, nu)
        err = (vol - quote) * 100
        fit = (vega * torch.where(err.abs() < 1, 0.5 * err**2, err.abs() - 0.5)).sum(-1).mean()
        smooth = sum(((p[1:] - p[:-1]) ** 2).mean() for p in (self.log_alpha, self.raw_rho, self.log_nu))
        return fit + 0.02 * smooth, err


def market(days, expiries, strikes, seed=2):
    g = torch.Generator().manual_seed(seed)
    t = torch.logspace(-1, 1, expiries)[None, :, None]
    f = 0.03 * torch.exp(
        0.05 * torch.randn(days, 1, 1, generator=g).cumsum(0) / days**0.5
    ) + 0.004 * torch.log1p(t)
    width = 0.25 * torch.sqrt(t).clamp(max=1.5)
    k = f * torch.exp(torch.linspace(-2, 2, strikes) * width)
    walk = torch.randn(3, days, 1, 1, generator=g).cumsum(1) / days**0.5
    alpha = 0.045 * torch.exp(0.15 * walk[0] - 0.05 * t)
    rho = torch.tanh(-0.3 + 0.2 * walk[1] + 0.02 * t)
    nu = 0.55 * torch.exp(0.1 * walk[2] - 0.08 * t)
    vol = hagan_vol(f, k, t, alpha, 0.5, rho, nu)
    quote = vol * (1 + 0.004 * torch.randn(vol.shape, generator=g))
    d1 = torch.log(f / k) / (vol * torch.sqrt(t)) + 0.5 * vol * torch.sqrt(t)
    vega = torch.exp(-0.5 * d1**2)
    return f, k, t, quote, vega / vega.sum(-1, keepdim=True), (alpha, rho, nu)


def main():
    torch.manual_seed(0)
    f, k, t, quote, vega, truth = market(days=252, expiries=16, strikes=25)
    book = SmileBook(252, 16)
    book.compile()
    opt = torch.optim.Adam(book.parameters(), lr=0.05, betas=(0.9, 0.98))
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 250)
    print(f"{quote.numel()} quotes, {3 * 252 * 16} parameters")
    t0 = time.perf_counter()
    for it in range(1, 251):
        opt.zero_grad()
        loss, err = book(f, k, t, quote, vega)
        loss.backward()
        opt.step()
        sched.step()
        if it % 50 == 0:
            rms = err.detach().pow(2).mean().sqrt()
            print(
                f"iter {it:4d} loss {loss.item():.5f} rms {rms:.4f} vol points"
                f" {(time.perf_counter() - t0) / it * 1e3:.1f} ms/iter"
            )
    with torch.no_grad():
        alpha, rho, nu = book.parameters_of_model()
        for name, est, true in zip(("alpha", "rho", "nu"), (alpha, rho, nu), truth):
            print(f"{name}: median error {(est - true).abs().median():.4f} (level {true.abs().median():.3f})")


if __name__ == "__main__":
    main()
