"""Fit daily Nelson-Siegel-Svensson curves to a panel of coupon gilts.

All days are fitted together: dirty prices are discounted cash flows under each day's six parameters, pricing errors are
weighted by inverse duration, and a random-walk penalty ties neighbouring days.
"""

import math

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def make_universe(n_bonds, n_days, g):
    """Maturities (years after day 0), semi-annual coupons, payment times and amounts for every day."""
    maturity = 2.5 + 27.5 * torch.rand(n_bonds, generator=g) ** 1.3
    coupon = torch.round(8 * (0.5 + 4.5 * torch.rand(n_bonds, generator=g))) / 8
    n_flows = 2 * 30 + 1
    k = torch.arange(n_flows)
    pay = maturity[:, None] - 0.5 * k  # counted back from redemption
    amount = coupon[:, None] / 2 + torch.where(k == 0, 100.0, 0.0)
    day = torch.arange(n_days) / 250.0
    tau = pay[None] - day[:, None, None]  # day, bond, flow
    alive = tau > 1e-3
    return tau.clamp_min(1e-3), amount[None] * alive, maturity


def svensson_yield(tau, p):
    """p: (..., 6) = level, slope, hump 1, hump 2, log decay 1, log decay 2."""
    b0, b1, b2, b3 = p[..., 0], p[..., 1], p[..., 2], p[..., 3]
    x1 = tau / torch.exp(p[..., 4])
    x2 = tau / torch.exp(p[..., 5])
    e1, e2 = torch.exp(-x1), torch.exp(-x2)
    f1 = (1 - e1) / x1
    f2 = (1 - e2) / x2
    return b0 + b1 * f1 + b2 * (f1 - e1) + b3 * (f2 - e2)


def price(tau, amount, params):
    y = svensson_yield(tau, params[:, None, None, :])
    return (amount * torch.exp(-y * tau)).sum(-1)


def panel_loss(params, tau, amount, dirty, inv_dur, smooth, scale):
    err = (price(tau, amount, params) - dirty) * inv_dur  # roughly a yield error, in %
    fit = F.huber_loss(err, torch.zeros_like(err), delta=0.05)
    walk = ((params[1:] - params[:-1]) / scale).pow(2).mean()
    order = F.relu(params[:, 4] - params[:, 5] + 0.3).pow(2).mean()  # keep hump 1 the shorter one
    return fit + smooth * walk + order, err.detach().pow(2).mean().sqrt()


def true_path(n_days, g):
    start = torch.tensor([0.042, -0.022, -0.015, 0.012, math.log(1.8), math.log(7.5)])
    vol = torch.tensor([0.0004, 0.0006, 0.0008, 0.0006, 0.004, 0.004])
    return start + torch.cumsum(vol * torch.randn(n_days, 6, generator=g), 0)


def main():
    g = torch.Generator().manual_seed(2024)
    n_days, n_bonds = 260, 36
    tau, amount, maturity = make_universe(n_bonds, n_days, g)
    truth = true_path(n_days, g)
    clean = price(tau, amount, truth)
    dirty = clean + 0.03 * torch.randn(clean.shape, generator=g)
    # a handful of stale quotes
    stale = torch.rand(clean.shape, generator=g) < 0.004
    dirty[stale] += 1.5 * torch.randn(int(stale.sum()), generator=g)
    bumped = truth.clone()
    bumped[:, 0] += 1e-4
    inv_dur = 1e-2 / (clean - price(tau, amount, bumped)).clamp_min(1e-4)

    params = (
        torch.tensor([0.03, 0.0, 0.0, 0.0, math.log(1.0), math.log(5.0)]).repeat(n_days, 1).requires_grad_()
    )
    scale = torch.tensor([0.001, 0.001, 0.002, 0.002, 0.02, 0.02])
    opt = torch.optim.Adam(
        [
            {"params": [params], "lr": 4e-3},
        ],
        betas=(0.9, 0.98),
    )
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 260, eta_min=5e-5)
    loss_fn = torch.compile(panel_loss, fullgraph=True)

    history = []
    for it in range(260):
        opt.zero_grad(set_to_none=True)
        smooth = 1e-5 if it < 130 else 1e-6
        loss, rmse = loss_fn(params, tau, amount, dirty, inv_dur, smooth, scale)
        loss.backward()
        opt.step()
        sched.step()
        history.append((loss.item(), rmse.item()))

    with torch.no_grad():
        grid = torch.tensor([1.0, 2.0, 5.0, 10.0, 20.0, 30.0])
        fit_y = svensson_yield(grid, params[:, None, :]) * 100
        true_y = svensson_yield(grid, truth[:, None, :]) * 100
        gap = (fit_y - true_y).abs().mean(0)
        resid = (price(tau, amount, params) - dirty) * inv_dur
    rich = resid.mean(0)
    worst = rich.abs().topk(3).indices
    print(f"{n_days} days x {n_bonds} bonds, loss {history[0][0]:.5f} -> {history[-1][0]:.6f}")
    print(f"weighted rmse {history[0][1]:.4f} -> {history[-1][1]:.4f} %")
    print(
        "mean zero-yield gap in bp:",
        {f"{int(t)}y": round(v * 100, 2) for t, v in zip(grid.tolist(), gap.tolist())},
    )
    print(
        "richest / cheapest maturities:",
        [(round(maturity[i].item(), 1), round(rich[i].item(), 4)) for i in worst],
    )


if __name__ == "__main__":
    main()
