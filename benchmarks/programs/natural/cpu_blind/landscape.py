"""Landscape evolution: uplift, stream-power incision and hillslope creep on a raster.

D8 receivers from the steepest descent, drainage area by pointer doubling along the
receiver tree, explicit detachment-limited erosion.
"""

import argparse
import time

import torch
import torch.nn.functional as F

OFFS = [(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)]


def make_model(n, dx, K=2.0e-5, m=0.5, D=0.01, uplift=5e-4, dt=250.0, levels=10):
    N = n * n
    dist = torch.tensor([(a * a + b * b) ** 0.5 * dx for a, b in OFFS]).view(8, 1, 1)
    node = torch.arange(N).view(n, n)
    nbr = torch.stack([node + a * n + b for a, b in OFFS])
    edge = torch.zeros(n, n, dtype=torch.bool)
    edge[0], edge[-1], edge[:, 0], edge[:, -1] = True, True, True, True
    area0 = torch.full((N,), dx * dx)

    def receivers(h):
        p = F.pad(h[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
        slopes = torch.stack([(h - p[1 + a : 1 + a + n, 1 + b : 1 + b + n]) for a, b in OFFS]) / dist
        s, k = slopes.max(0)
        rcv = nbr.gather(0, k.unsqueeze(0)).squeeze(0)
        sink = edge | (s <= 0)
        # node N is the outlet of everything: base level and closed pits
        rcv = torch.where(sink, torch.full_like(rcv, N), rcv)
        return rcv.flatten(), torch.where(sink, torch.zeros_like(s), s)

    def drainage(rcv):
        ptr = torch.cat([rcv, rcv.new_full((1,), N)])
        acc = torch.cat([area0, area0.new_zeros(1)])
        for _ in range(levels):
            gained = torch.zeros_like(acc).index_add_(0, ptr, acc)
            acc = acc + gained
            acc[N] = 0.0
            ptr = ptr[ptr]
        return acc[:N].view(n, n)

    def step(h):
        rcv, slope = receivers(h)
        area = drainage(rcv)
        p = F.pad(h[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
        lap = (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * h) / (dx * dx)
        incision = K * area.pow(m) * slope
        # never cut below the receiver within one step
        incision = torch.minimum(incision, 0.9 * slope * dx / dt)
        dh = torch.where(edge, torch.zeros_like(h), uplift - incision + D * lap)
        return h + dt * dh, area, incision

    return torch.compile(step)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=512)
    ap.add_argument("--steps", type=int, default=240)
    ap.add_argument("--dx", type=float, default=50.0)
    args = ap.parse_args()

    torch.manual_seed(7)
    h = 0.3 * torch.rand(args.size, args.size)
    # gentle regional tilt, so that valleys have somewhere to go
    h += 0.4 * torch.minimum(torch.arange(args.size), torch.arange(args.size).flip(0)).float()
    step = make_model(args.size, args.dx)
    tic = time.time()
    with torch.no_grad():
        for it in range(args.steps):
            h, area, inc = step(h)
            if it % 40 == 0 or it == args.steps - 1:
                print(
                    f"{it * 250 / 1e3:7.1f} kyr relief {h.max() - h.min():7.2f} m "
                    f"max area {area.max() / 1e6:8.2f} km2 mean incision {inc.mean() * 1e3:.3f} mm/yr "
                    f"({time.time() - tic:.1f} s)"
                )


if __name__ == "__main__":
    main()
