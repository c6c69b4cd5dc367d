"""Moves a particle cloud onto a target distribution by gradient flow of the debiased Sinkhorn divergence computed in the log domain."""

import math

import torch


def cost_matrix(x, y):
    return 0.5 * ((x**2).sum(-1, keepdim=True) + (y**2).sum(-1) - 2 * x @ y.transpose(-1, -2))


def softmin(eps, cost, logw, pot):
    return -eps * torch.logsumexp(logw + (pot[None, :] - cost) / eps, dim=1)


def potentials(cost, loga, logb, eps: float, iters: int):
    f = torch.zeros_like(loga)
    g = torch.zeros_like(logb)
    ct = cost.transpose(0, 1)
    for _ in range(iters):
        f = softmin(eps, cost, logb[None, :], g)
        g = softmin(eps, ct, loga[None, :], f)
    return f, g


def ot_value(x, y, loga, logb, eps: float, iters: int):
    with torch.no_grad():
        f, g = potentials(cost_matrix(x, y), loga, logb, eps, iters)
    # one differentiable extrapolation step: gradient through the converged potentials
    f2 = softmin(eps, cost_matrix(x, y.detach()), logb[None, :], g)
    g2 = softmin(eps, cost_matrix(y, x.detach()), loga[None, :], f)
    return (loga.exp() * f2).sum() + (logb.exp() * g2).sum()


@torch.compile
def sinkhorn_divergence(x, y, loga, logb, eps: float = 0.05, iters: int = 10):
    xy = ot_value(x, y, loga, logb, eps, iters)
    xx = ot_value(x, x, loga, loga, eps, iters)
    yy = ot_value(y, y, logb, logb, eps, iters)
    return xy - 0.5 * xx - 0.5 * yy


def two_moons(n, gen):
    t = math.pi * torch.rand(n, device="cuda", generator=gen)
    side = (torch.arange(n, device="cuda") % 2).float()
    x = torch.where(side > 0, 1 - t.cos(), t.cos())
    y = torch.where(side > 0, 0.5 - t.sin(), t.sin())
    pts = torch.stack([x - 0.5, y - 0.25], 1)
    return pts + 0.05 * torch.randn(n, 2, device="cuda", generator=gen)


def main():
    gen = torch.Generator(device="cuda").manual_seed(19)
    n, m = 2048, 3072
    x = (0.3 * torch.randn(n, 2, device="cuda", generator=gen)).requires_grad_(True)
    y = two_moons(m, gen)
    loga = torch.full((n,), -math.log(n), device="cuda")
    logb = torch.full((m,), -math.log(m), device="cuda")
    velocity = torch.zeros_like(x)
    values = []
    for step in range(30):
        value = sinkhorn_divergence(x, y, loga, logb)
        (grad,) = torch.autograd.grad(value, x)
        with torch.no_grad():
            velocity.mul_(0.5).sub_(0.3 * n * grad)
            x.add_(velocity)
        values.append(value.detach())
    nearest = torch.cdist(x.detach(), y).min(1).values.mean()
    print("divergence %.5f -> %.5f" % (values[0].item(), values[-1].item()))
    print("mean nearest target distance %.5f" % nearest.item())


if __name__ == "__main__":
    main()
