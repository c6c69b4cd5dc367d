"""N-1 screening of a transmission grid: batched Newton-Raphson AC power flow.

For every hour of a load profile we solve the base case together with a set of line
outages and report overloaded lines and the lowest bus voltage.
"""

import time

import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(77)

N_BUS = 72
N_EXTRA = 50
N_GEN = 14
N_OUTAGES = 23
HOURS = 24


class Grid:
    def __init__(self):
        ring = [(i, (i + 1) % N_BUS) for i in range(N_BUS)]
        chords = set()
        while len(chords) < N_EXTRA:
            a, b = torch.randint(N_BUS, (2,)).tolist()
            if 1 < abs(a - b) < 25:
                chords.add((min(a, b), max(a, b)))
        lines = torch.tensor(ring + sorted(chords))
        self.frm, self.to = lines[:, 0], lines[:, 1]
        n_line = len(lines)
        x = 0.02 + 0.05 * torch.rand(n_line)
        self.y_series = 1.0 / torch.complex(0.2 * x, x)
        self.b_shunt = 0.02 * torch.rand(n_line)
        gens = torch.randperm(N_BUS - 1)[: N_GEN - 1] + 1
        self.slack = 0
        self.pv = gens
        is_pq = torch.ones(N_BUS, dtype=torch.bool)
        is_pq[gens] = False
        is_pq[0] = False
        self.pq = is_pq.nonzero()[:, 0]
        self.pvpq = torch.cat([self.pv, self.pq])
        self.p_load = 0.10 + 0.25 * torch.rand(N_BUS)
        self.q_load = 0.25 * self.p_load
        self.p_gen = torch.zeros(N_BUS)
        self.p_gen[gens] = self.p_load.sum() / N_GEN
        self.rating = 0.6 + 1.2 * torch.rand(n_line)

    def ybus(self, status):
        """status: (batch, line) 0/1 -> dense complex admittance matrices (batch, n, n)."""
        y = status * self.y_series
        sh = status * 0.5j * self.b_shunt
        m = torch.zeros(status.shape[0], N_BUS, N_BUS, dtype=torch.complex128)
        for k in range(status.shape[1]):
            f, t = self.frm[k], self.to[k]
            m[:, f, f] += y[:, k] + sh[:, k]
            m[:, t, t] += y[:, k] + sh[:, k]
            m[:, f, t] -= y[:, k]
            m[:, t, f] -= y[:, k]
        return m


def mismatch(ybus, v, s_spec, pvpq, pq):
    s = v * torch.conj(torch.einsum("bij,bj->bi", ybus, v))
    ds = s_spec - s
    return torch.cat([ds.real[:, pvpq], ds.imag[:, pq]], dim=1)


def jacobian(ybus, v, pvpq, pq):
    cur = torch.einsum("bij,bj->bi", ybus, v)
    vn = v / v.abs()
    diag_v, diag_i = torch.diag_embed(v), torch.diag_embed(cur)
    ds_da = 1j * diag_v @ torch.conj(diag_i - ybus @ diag_v)
    ds_dm = diag_v @ torch.conj(ybus @ torch.diag_embed(vn)) + torch.conj(diag_i) @ torch.diag_embed(vn)
    j11 = ds_da.real[:, pvpq][:, :, pvpq]
    j12 = ds_dm.real[:, pvpq][:, :, pq]
    j21 = ds_da.imag[:, pq][:, :, pvpq]
    j22 = ds_dm.imag[:, pq][:, :, pq]
    return torch.cat([torch.cat([j11, j12], 2), torch.cat([j21, j22], 2)], 1)


@torch.compile
def newton(ybus, s_spec, ang, mag, pvpq, pq, tol=1e-8, max_iter=12):
    v = torch.polar(mag, ang)
    f = mismatch(ybus, v, s_spec, pvpq, pq)
    it = 0
    while f.abs().max() > tol and it < max_iter:
        jac = jacobian(ybus, v, pvpq, pq)
        dx = torch.linalg.solve(jac, f)
        n = pvpq.numel()
        ang = ang.index_add(1, pvpq, dx[:, :n])
        mag = mag.index_add(1, pq, dx[:, n:])
        v = torch.polar(mag, ang)
        f = mismatch(ybus, v, s_spec, pvpq, pq)
        it += 1
    return v, it, f.abs().amax(1)


@torch.compile
def line_loading(v, status, frm, to, y_series, b_shunt, rating):
    vf, vt = v[:, frm], v[:, to]
    i_f = status * ((vf - vt) * y_series + 0.5j * b_shunt * vf)
    i_t = status * ((vt - vf) * y_series + 0.5j * b_shunt * vt)
    s = torch.maximum((vf * i_f.conj()).abs(), (vt * i_t.conj()).abs())
    return s / rating


def main():
    grid = Grid()
    n_line = grid.frm.numel()
    outages = torch.randperm(n_line)[:N_OUTAGES]
    status = torch.ones(N_OUTAGES + 1, n_line)
    status[torch.arange(1, N_OUTAGES + 1), outages] = 0.0
    ybus = grid.ybus(status)
    batch = status.shape[0]
    alarms, worst, t0 = 0, (0.0, -1, -1), time.time()
    for hour in range(2 * HOURS):
        level = 0.75 + 0.3 * torch.sin(torch.tensor((hour % 24 - 8) / 24 * 6.2832)).item()
        local = level * (1 + 0.05 * torch.randn(N_BUS))
        p = grid.p_gen * level - grid.p_load * local
        q = -grid.q_load * local
        s_spec = torch.complex(p, q).expand(batch, -1)
        ang = torch.zeros(batch, N_BUS)
        mag = torch.ones(batch, N_BUS)
        mag[:, grid.pv] = 1.02
        v, it, res = newton(ybus, s_spec, ang, mag, grid.pvpq, grid.pq)
        load = line_loading(v, status, grid.frm, grid.to, grid.y_series, grid.b_shunt, grid.rating)
        over = (load > 1.0).sum().item()
        alarms += over
        top = load.max().item()
        if top > worst[0]:
            case = int(load.amax(1).argmax())
            worst = (top, hour, case)
        if hour % 8 == 0:
            print(
                f"hour {hour:2d} level {level:.2f}: {it} newton steps, residual {res.max().item():.1e}, "
                f"{over} overloads, v_min {v.abs().min().item():.3f}"
            )
    print(
        f"{alarms} overloads in {2 * HOURS} hours x {batch} cases, worst {worst[0]:.2f} at hour {worst[1]} "
        f"case {worst[2]}; {time.time() - t0:.1f} s"
    )


if __name__ == "__main__":
    main()
