"""Fit a semi-empirical capacity fade model to ageing data of many cells.

States integrated over the check-up intervals: SEI thickness, lost active
material.  Parameters are shared, with a per-cell log scale.
"""

import time

import torch
import torch.nn as nn

N_CELLS = 3000
N_CHECK = 24
EPOCHS = 50
R_GAS = 8.314
T_REF = 298.15


class FadeModel(nn.Module):
    def __init__(self, n_cells):
        super().__init__()
        self.log_k_sei = nn.Parameter(torch.tensor(-4.0))
        self.ea_sei = nn.Parameter(torch.tensor(3.0))  # 1e4 J/mol
        self.log_k_lam = nn.Parameter(torch.tensor(-6.5))
        self.ea_lam = nn.Parameter(torch.tensor(1.5))
        self.dod_exp = nn.Parameter(torch.tensor(1.0))
        self.soc_coef = nn.Parameter(torch.tensor(0.5))
        self.cell_scale = nn.Parameter(torch.zeros(n_cells))

    def forward(self, temp, soc, dod, efc):
        """temp, soc, dod, efc: (n_cells, n_check) stress per interval."""
        sei = torch.full_like(temp[:, 0], 0.05)
        lam = torch.zeros_like(sei)
        scale = torch.exp(self.cell_scale)
        out = []
        for j in range(temp.shape[1]):
            inv_t = (1.0 / T_REF - 1.0 / temp[:, j]) / R_GAS
            k_sei = torch.exp(self.log_k_sei + 1e4 * self.ea_sei * inv_t + self.soc_coef * (soc[:, j] - 0.5))
            k_lam = torch.exp(self.log_k_lam + 1e4 * self.ea_lam * inv_t)
            sei = sei + scale * k_sei * 0.1 / (sei + 0.02)
            stress = dod[:, j].pow(self.dod_exp) * efc[:, j]
            lam = lam + scale * k_lam * stress * (1.0 + 0.8 * sei) * (1.0 - lam)
            q = (1.0 - 0.25 * sei) * (1.0 - lam)
            out.append(q)
        return torch.stack(out, dim=1)


def make_data(gen):
    base_t = 283.15 + 35.0 * torch.rand(N_CELLS, 1, generator=gen)
    temp = base_t + 3.0 * torch.randn(N_CELLS, N_CHECK, generator=gen)
    soc = (0.3 + 0.5 * torch.rand(N_CELLS, 1, generator=gen)).expand(-1, N_CHECK).contiguous()
    dod = 0.2 + 0.8 * torch.rand(N_CELLS, N_CHECK, generator=gen)
    efc = 0.5 + torch.rand(N_CELLS, N_CHECK, generator=gen)
    ref = FadeModel(N_CELLS)
    with torch.no_grad():
        ref.log_k_sei.fill_(-4.6)
        ref.ea_sei.fill_(3.6)
        ref.log_k_lam.fill_(-5.6)
        ref.ea_lam.fill_(2.1)
        ref.dod_exp.fill_(1.4)
        ref.soc_coef.fill_(0.9)
        ref.cell_scale.copy_(0.15 * torch.randn(N_CELLS, generator=gen))
        q = ref(temp, soc, dod, efc)
        q = q + 0.003 * torch.randn(q.shape, generator=gen)
    return (temp, soc, dod, efc), q


def main():
    torch.manual_seed(5)
    torch.set_num_threads(2)
    gen = torch.Generator().manual_seed(5)
    stress, q_meas = make_data(gen)

    model = FadeModel(N_CELLS)
    fwd = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=0.05)

    t_start = time.perf_counter()
    for epoch in range(EPOCHS):
        t0 = time.perf_counter()
        opt.zero_grad()
        q = fwd(*stress)
        resid = nn.functional.huber_loss(q, q_meas, delta=0.02)
        loss = resid + 1e-5 * model.cell_scale.pow(2).mean()
        loss.backward()
        opt.step()
        if epoch % 5 == 0 or epoch == EPOCHS - 1:
            rmse = (q.detach() - q_meas).pow(2).mean().sqrt().item()
            print(
                f"epoch {epoch:3d}  loss {loss.item():.3e}  rmse {100 * rmse:.3f} %  "
                f"{1e3 * (time.perf_counter() - t0):.1f} ms"
            )
    print(f"fit took {time.perf_counter() - t_start:.1f} s")
    for name, p in model.named_parameters():
        if p.ndim == 0:
            print(f"  {name:10s} {p.item(): .3f}")
    print(f"  cell scale std {model.cell_scale.std().item():.3f}")


if __name__ == "__main__":
    main()
