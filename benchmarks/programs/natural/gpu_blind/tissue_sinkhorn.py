"""Align two consecutive histology sections with entropic optimal transport.

Spots of section A are matched to spots of section B by log-domain Sinkhorn
on a mix of expression and position distances.
"""

import os
import time

import torch

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

N_A = max(96, int(6144 * SCALE))
N_B = max(96, int(5632 * SCALE))
N_GENES = 48
SECTIONS = 30
OUTER = 5
INNER = 4

torch.manual_seed(3)
torch.set_float32_matmul_precision("high")


def sync():
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def make_section(n, shift):
    xy = torch.rand(n, 2, device=device)
    base = torch.stack([torch.sin((k + 1) * xy[:, 0] * 3.0 + k * xy[:, 1]) for k in range(N_GENES)], dim=1)
    expr = base + 0.1 * torch.randn(n, N_GENES, device=device)
    return xy + shift, expr


@torch.compile
def cost_matrix(xy_a, ex_a, xy_b, ex_b, alpha):
    d_expr = ex_a.square().sum(1)[:, None] + ex_b.square().sum(1)[None, :] - 2.0 * ex_a @ ex_b.T
    d_xy = (xy_a[:, None, :] - xy_b[None, :, :]).square().sum(-1)
    c = d_expr.clamp_min(0.0) / ex_a.shape[1] + alpha * d_xy.sqrt()
    return c / c.mean()


@torch.compile
def sinkhorn_block(f, g, cost, log_a, log_b, eps):
    for _ in range(INNER):
        f = eps * (log_a - torch.logsumexp((g[None, :] - cost) / eps, dim=1))
        g = eps * (log_b - torch.logsumexp((f[:, None] - cost) / eps, dim=0))
    return f, g


@torch.compile
def transport(f, g, cost, xy_b, eps):
    plan = torch.exp((f[:, None] + g[None, :] - cost) / eps)
    mass = plan.sum(1, keepdim=True)
    mapped = plan @ xy_b / mass
    total = (plan * cost).sum()
    entropy = -(plan * (plan + 1e-30).log()).sum()
    return mapped, total, entropy


def align(section_a, section_b, eps_schedule):
    xy_a, ex_a = section_a
    xy_b, ex_b = section_b
    cost = cost_matrix(xy_a, ex_a, xy_b, ex_b, 0.5)
    log_a = torch.full((N_A,), 1.0 / N_A, device=device).log()
    log_b = torch.full((N_B,), 1.0 / N_B, device=device).log()
    f = torch.zeros(N_A, device=device)
    g = torch.zeros(N_B, device=device)
    for eps in eps_schedule:
        f, g = sinkhorn_block(f, g, cost, log_a, log_b, eps)
    return transport(f, g, cost, xy_b, eps_schedule[-1])


@torch.no_grad()
def main():
    eps_schedule = list(torch.logspace(-0.5, -1.5, OUTER, device=device).unbind())
    a = make_section(N_A, 0.0)
    times = []
    for i in range(SECTIONS):
        b = make_section(N_B, 0.02 * (i % 5))
        sync()
        t0 = time.perf_counter()
        mapped, total, entropy = align(a, b, eps_schedule)
        sync()
        times.append(time.perf_counter() - t0)
        if i % 10 == 0:
            drift = (mapped - a[0]).mean(0).tolist()
            print(
                f"section {i:3d}  cost {total.item():.4f}  entropy {entropy.item():.3f}"
                f"  drift {drift[0]:+.4f} {drift[1]:+.4f}"
            )
    tail = times[len(times) // 2 :]
    print(f"time per section: {1e3 * sum(tail) / len(tail):.2f} ms")


if __name__ == "__main__":
    main()
