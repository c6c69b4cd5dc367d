"""Learns process and measurement noise of a bank of constant-velocity Kalman filters by maximising the innovation likelihood."""

import math

import torch
import torch.nn as nn


class KalmanBank(nn.Module):
    def __init__(self, dt=0.1):
        super().__init__()
        F_ = torch.eye(4)
        F_[0, 2] = F_[1, 3] = dt
        H = torch.zeros(2, 4)
        H[0, 0] = H[1, 1] = 1.0
        G = torch.tensor([[dt * dt / 2, 0], [0, dt * dt / 2], [dt, 0], [0, dt]])
        self.register_buffer("F", F_)
        self.register_buffer("H", H)
        self.register_buffer("G", G)
        self.log_q = nn.Parameter(torch.zeros(2))
        self.log_r = nn.Parameter(torch.zeros(2))

    def forward(self, obs):
        batch, steps, _ = obs.shape
        Q = self.G @ torch.diag(self.log_q.exp()) @ self.G.T
        R = torch.diag(self.log_r.exp())
        eye = torch.eye(4, device=obs.device)
        x = torch.cat([obs[:, 0], torch.zeros_like(obs[:, 0])], -1)
        P = (eye * 4.0).expand(batch, 4, 4)
        nll = obs.new_zeros(batch)
        for t in range(1, steps):
            x = x @ self.F.T
            P = self.F @ P @ self.F.T + Q
            innov = obs[:, t] - x @ self.H.T
            S = self.H @ P @ self.H.T + R
            L = torch.linalg.cholesky(S)
            PHt = P @ self.H.T
            K = torch.cholesky_solve(PHt.transpose(1, 2), L).transpose(1, 2)
            x = x + (K @ innov.unsqueeze(-1)).squeeze(-1)
            A = eye - K @ self.H
            P = A @ P @ A.transpose(1, 2) + K @ R @ K.transpose(1, 2)
            w = torch.linalg.solve_triangular(L, innov.unsqueeze(-1), upper=False).squeeze(-1)
            logdet = 2 * L.diagonal(dim1=1, dim2=2).log().sum(-1)
            nll = nll + 0.5 * (w.pow(2).sum(-1) + logdet + 2 * math.log(2 * math.pi))
        return nll.mean() / (steps - 1), x


def simulate(batch, steps, q, r, dt, gen):
    pos = torch.randn(batch, 2, device="cuda", generator=gen) * 3
    vel = torch.randn(batch, 2, device="cuda", generator=gen)
    out = []
    for _ in range(steps):
        a = torch.randn(batch, 2, device="cuda", generator=gen) * math.sqrt(q)
        pos = pos + vel * dt + 0.5 * a * dt * dt
        vel = vel + a * dt
        out.append(pos + math.sqrt(r) * torch.randn(batch, 2, device="cuda", generator=gen))
    return torch.stack(out, 1), pos


def main():
    torch.manual_seed(17)
    gen = torch.Generator(device="cuda").manual_seed(17)
    model = KalmanBank().cuda()
    bank = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=0.1)
    for step in range(24):
        obs, truth = simulate(2048, 16, q=4.0, r=0.09, dt=0.1, gen=gen)
        nll, est = bank(obs)
        opt.zero_grad()
        nll.backward()
        opt.step()
    rmse = (est[:, :2].detach() - truth).pow(2).sum(-1).mean().sqrt()
    print("nll %.4f rmse %.4f" % (nll.item(), rmse.item()))
    print("r estimate", [round(v, 3) for v in model.log_r.exp().tolist()])


if __name__ == "__main__":
    main()
