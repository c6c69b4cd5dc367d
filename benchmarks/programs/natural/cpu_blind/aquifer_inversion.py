"""Recover a log-conductivity field of a confined aquifer from drawdown seen in
monitoring wells, by differentiating through an explicit groundwater model."""

import math
import time

import torch
import torch.nn.functional as F

torch.manual_seed(7)

N = 224  # cells per side
DX = 20.0  # m
STORAGE = 2.0e-4
DT = 20.0  # s
STEPS = 24
ITERATIONS = 300


def harmonic(a, b):
    return 2.0 * a * b / (a + b + 1e-12)


@torch.compile
def advance(head, trans, source):
    """One explicit step; fixed head of zero outside the domain."""
    h = F.pad(head[None, None], (1, 1, 1, 1))[0, 0]
    t = F.pad(trans[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    centre = t[1:-1, 1:-1]
    flow_e = harmonic(centre, t[1:-1, 2:]) * (h[1:-1, 2:] - head)
    flow_w = harmonic(centre, t[1:-1, :-2]) * (h[1:-1, :-2] - head)
    flow_s = harmonic(centre, t[2:, 1:-1]) * (h[2:, 1:-1] - head)
    flow_n = harmonic(centre, t[:-2, 1:-1]) * (h[:-2, 1:-1] - head)
    divergence = (flow_e + flow_w + flow_s + flow_n) / DX**2
    return head + DT / STORAGE * (divergence + source)


def smooth_random_field(n, length, seed):
    g = torch.Generator().manual_seed(seed)
    noise = torch.randn(n, n, generator=g)
    k = torch.fft.fftfreq(n)
    k2 = k[:, None] ** 2 + k[None, :] ** 2
    field = torch.fft.ifft2(torch.fft.fft2(noise) * torch.exp(-k2 * length**2)).real
    return field / field.std()


def forward_model(log_t, source, wells):
    trans = torch.exp(log_t)
    head = torch.zeros(N, N)
    records = []
    for _ in range(STEPS):
        head = advance(head, trans, source)
        records.append(head[wells[:, 0], wells[:, 1]])
    return torch.stack(records)


def roughness(log_t):
    gx = log_t[1:] - log_t[:-1]
    gy = log_t[:, 1:] - log_t[:, :-1]
    return torch.sqrt(gx**2 + 1e-4).mean() + torch.sqrt(gy**2 + 1e-4).mean()


def main():
    base = math.log(2.0e-4)
    true_log_t = base + 0.4 * smooth_random_field(N, 30.0, 1)

    source = torch.zeros(N, N)
    for i in range(8, N, 12):
        for j in range(8, N, 12):
            source[i, j] = -2.0e-3 / DX**2

    axis = torch.arange(4, N, 4)
    wells = torch.cartesian_prod(axis, axis)
    with torch.no_grad():
        observed = forward_model(true_log_t, source, wells)
        scale = observed.std()
        observed = observed + 0.01 * scale * torch.randn_like(observed)

    log_t = torch.full((N, N), base, requires_grad=True)
    opt = torch.optim.Adam([log_t], lr=0.02)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, ITERATIONS)

    start = time.time()
    for it in range(ITERATIONS):
        opt.zero_grad()
        predicted = forward_model(log_t, source, wells)
        misfit = ((predicted - observed) / scale).square().mean()
        loss = misfit + 1e-3 * roughness(log_t)
        loss.backward()
        opt.step()
        sched.step()
        if it % 50 == 0 or it == ITERATIONS - 1:
            err = (log_t.detach() - true_log_t).square().mean().sqrt().item()
            print(f"iter {it:4d}  misfit {misfit.item():.5f}  rmse(lnT) {err:.4f}")
    print(f"inversion took {time.time() - start:.1f} s")
    est, tru = log_t.detach() - base, true_log_t - base
    near = source != 0
    corr = torch.corrcoef(torch.stack([est[near], tru[near]]))[0, 1]
    print(f"correlation of estimated and true ln T at the pumping cells: {corr:.3f}")


if __name__ == "__main__":
    main()
