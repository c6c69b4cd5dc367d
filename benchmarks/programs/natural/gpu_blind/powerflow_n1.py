"""N-1 contingency screening of a transmission grid with a batched fast decoupled load flow.

A day of hourly load snapshots is screened: for every hour, every listed branch outage is solved
(XB scheme, B' and B'' of the intact grid are kept for all outages; what has not settled after the last
iteration goes to a full Newton elsewhere) and the worst voltage and the worst
branch loading are reported.
"""

import os
import time

import torch
import torch.nn as nn

SMOKE = os.environ.get("SMOKE") == "1"
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(20)

N_BUS = 60 if SMOKE else 1500
N_OUT = 16 if SMOKE else 512
HOURS = 3 if SMOKE else 24
N_ITER = 14
TOL = 2e-3


def make_grid(nb, gen):
    """Ring along a corridor plus local chords; per unit line data."""
    frm, to = [], []
    for i in range(nb):
        frm.append(i)
        to.append((i + 1) % nb)
    extra = torch.randint(2, 25, (nb * 9 // 10,), generator=gen)
    start = torch.randint(0, nb, (nb * 9 // 10,), generator=gen)
    for s, e in zip(start.tolist(), extra.tolist()):
        frm.append(s)
        to.append((s + e) % nb)
    nl = len(frm)
    x = 0.01 + 0.05 * torch.rand(nl, generator=gen, dtype=torch.float64)
    r = x * (0.1 + 0.15 * torch.rand(nl, generator=gen, dtype=torch.float64))
    bc = 0.02 * torch.rand(nl, generator=gen, dtype=torch.float64)
    tap = torch.ones(nl, dtype=torch.float64)
    tap[torch.rand(nl, generator=gen) < 0.08] = 0.98
    return torch.tensor(frm), torch.tensor(to), r, x, bc, tap


class FastDecoupled(nn.Module):
    def __init__(self, frm, to, r, x, bc, tap, pv, slack=0):
        super().__init__()
        nb = int(frm.max()) + 1
        ys = 1.0 / torch.complex(r, x)
        ytt = ys + torch.complex(torch.zeros_like(bc), bc / 2)
        self.nb = nb
        self.register_buffer("f_bus", frm)
        self.register_buffer("t_bus", to)
        self.register_buffer("yff", ytt / tap**2)
        self.register_buffer("yft", -ys / tap)
        self.register_buffer("ytf", -ys / tap)
        self.register_buffer("ytt", ytt)

        bp = torch.zeros(nb, nb, dtype=torch.float64)
        ybus = torch.zeros(nb, nb, dtype=torch.complex128)
        for k in range(frm.numel()):
            i, j, b = int(frm[k]), int(to[k]), 1.0 / float(x[k])
            bp[i, i] += b
            bp[j, j] += b
            bp[i, j] -= b
            bp[j, i] -= b
            ybus[i, i] += self.yff[k]
            ybus[j, j] += self.ytt[k]
            ybus[i, j] += self.yft[k]
            ybus[j, i] += self.ytf[k]
        free_ang = torch.ones(nb, dtype=torch.float64)
        free_ang[slack] = 0
        free_mag = torch.ones(nb, dtype=torch.float64)
        free_mag[pv] = 0
        free_mag[slack] = 0
        self.register_buffer("free_ang", free_ang)
        self.register_buffer("free_mag", free_mag)
        self.register_buffer("bp_inv", self._inverse(bp, free_ang))
        self.register_buffer("bpp_inv", self._inverse(-ybus.imag.clone(), free_mag))

    @staticmethod
    def _inverse(mat, free):
        keep = free[:, None] * free[None, :]
        mat = mat * keep + torch.diag(1.0 - free)
        return torch.linalg.inv(mat) * keep

    def branch_flows(self, v, status):
        vf, vt = v[:, self.f_bus], v[:, self.t_bus]
        sf = vf * torch.conj(status * (self.yff * vf + self.yft * vt))
        st = vt * torch.conj(status * (self.ytf * vf + self.ytt * vt))
        return sf, st

    def injections(self, theta, vm, status):
        v = torch.polar(vm, theta)
        sf, st = self.branch_flows(v, status)
        s = torch.zeros(v.shape, dtype=v.dtype, device=v.device)
        return s.index_add(1, self.f_bus, sf).index_add(1, self.t_bus, st)

    def iterate(self, theta, vm, p_spec, q_spec, status):
        s = self.injections(theta, vm, status)
        dp = (p_spec - s.real) / vm * self.free_ang
        theta = theta + dp @ self.bp_inv.T
        s = self.injections(theta, vm, status)
        dq = (q_spec - s.imag) / vm * self.free_mag
        vm = vm + dq @ self.bpp_inv.T
        mismatch = torch.maximum(dp.abs().amax(1), dq.abs().amax(1))
        return theta, vm, mismatch


def main():
    gen = torch.Generator().manual_seed(3)
    frm, to, r, x, bc, tap = make_grid(N_BUS, gen)
    pv = torch.arange(4, N_BUS, 5)
    net = FastDecoupled(frm, to, r, x, bc, tap, pv)
    p = -torch.rand(N_BUS, generator=gen, dtype=torch.float64)
    p[pv] = 4.0 * torch.rand(pv.numel(), generator=gen, dtype=torch.float64)
    p = p - p.mean()
    ang = net.bp_inv @ p
    p = p * (0.06 / (ang[frm] - ang[to]).abs().max())
    q = torch.where(p < 0, 0.3 * p, torch.zeros_like(p))

    net = net.to(device)
    iterate = torch.compile(net.iterate)
    outages = torch.randperm(frm.numel(), generator=gen)[:N_OUT]
    status = torch.ones(N_OUT, frm.numel(), dtype=torch.float64)
    status[torch.arange(N_OUT), outages] = 0.0
    status = status.to(device)
    p, q = p.to(device), q.to(device)
    hour_load = 0.8 + 0.25 * torch.sin(torch.arange(HOURS) / 24 * 6.28318 - 1.2)

    per_iter = []
    with torch.no_grad():
        for hour in range(HOURS):
            scale = float(hour_load[hour])
            p_h = (p * scale).expand(N_OUT, -1).contiguous()
            q_h = (q * scale).expand(N_OUT, -1).contiguous()
            theta = torch.zeros(N_OUT, N_BUS, dtype=torch.float64, device=device)
            vm = torch.ones_like(theta)
            if device == "cuda":
                torch.cuda.synchronize()
            t0 = time.perf_counter()
            for _ in range(N_ITER):
                theta, vm, mismatch = iterate(theta, vm, p_h, q_h, status)
            solved = int((mismatch < TOL).sum())
            per_iter.append((time.perf_counter() - t0) / N_ITER * 1e3)
            if hour % 6 == 0 or SMOKE:
                sf, _ = net.branch_flows(torch.polar(vm, theta), status)
                print(
                    f"hour {hour:2d}  solved {solved}/{N_OUT}  vmin {vm.min():.4f}  max flow {sf.abs().max():.3f}"
                )
    steady = sorted(per_iter[1:])
    print(f"median {steady[len(steady) // 2]:.3f} ms per iteration of {N_OUT} outages")


if __name__ == "__main__":
    main()
