"""Evolves a small neural cart-pole policy with CMA-ES on the GPU, evaluating the whole population in one compiled rollout."""

import math

import torch

OBS, HID, ACT = 4, 16, 1
DIM = OBS * HID + HID + HID * ACT + ACT


def unpack(theta):
    p = theta.shape[0]
    w1, b1, w2, b2 = theta.split([OBS * HID, HID, HID * ACT, ACT], 1)
    return w1.view(p, OBS, HID), b1.view(p, 1, HID), w2.view(p, HID, ACT), b2.view(p, 1, ACT)


def dynamics(s, force):
    x, dx, th, dth = s.unbind(-1)
    cos, sin = th.cos(), th.sin()
    tmp = (force + 0.05 * dth**2 * sin) / 1.1
    acc_th = (9.8 * sin - cos * tmp) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
    acc_x = tmp - 0.05 * acc_th * cos / 1.1
    dt = 0.02
    return torch.stack([x + dt * dx, dx + dt * acc_x, th + dt * dth, dth + dt * acc_th], -1)


@torch.compile
def rollout(theta, state, steps: int = 40):
    w1, b1, w2, b2 = unpack(theta)
    s = state.expand(theta.shape[0], -1, -1)
    alive = torch.ones(s.shape[:2], device=s.device)
    cost = torch.zeros(s.shape[:2], device=s.device)
    for _ in range(steps):
        h = torch.tanh(torch.baddbmm(b1, s, w1))
        a = torch.tanh(torch.baddbmm(b2, h, w2)).squeeze(-1)
        s = dynamics(s, 10.0 * a)
        alive = alive * ((s[..., 2].abs() < 0.6) & (s[..., 0].abs() < 2.4)).float()
        cost = cost + alive * (s[..., 2] ** 2 + 0.1 * s[..., 0] ** 2 + 0.001 * a**2) + (1 - alive)
    return cost.mean(1)


class CMAES:
    def __init__(self, dim, pop, sigma, gen):
        self.n, self.pop, self.sigma, self.gen = dim, pop, sigma, gen
        mu = pop // 2
        w = math.log(mu + 0.5) - torch.arange(1, mu + 1, device="cuda").float().log()
        self.w = w / w.sum()
        self.mueff = float(1 / (self.w**2).sum())
        self.cc = (4 + self.mueff / dim) / (dim + 4 + 2 * self.mueff / dim)
        self.cs = (self.mueff + 2) / (dim + self.mueff + 5)
        self.c1 = 2 / ((dim + 1.3) ** 2 + self.mueff)
        self.cmu = min(1 - self.c1, 2 * (self.mueff - 2 + 1 / self.mueff) / ((dim + 2) ** 2 + self.mueff))
        self.damp = 1 + self.cs + 2 * max(0, math.sqrt((self.mueff - 1) / (dim + 1)) - 1)
        self.chi = math.sqrt(dim) * (1 - 1 / (4 * dim) + 1 / (21 * dim**2))
        self.mean, self.C = torch.zeros(dim, device="cuda"), torch.eye(dim, device="cuda")
        self.pc, self.ps = torch.zeros(dim, device="cuda"), torch.zeros(dim, device="cuda")

    def ask(self):
        vals, self.B = torch.linalg.eigh(self.C)
        self.D = vals.clamp(min=1e-12).sqrt()
        z = torch.randn(self.pop, self.n, device="cuda", generator=self.gen)
        self.y = (z * self.D) @ self.B.T
        return self.mean + self.sigma * self.y

    def tell(self, cost):
        y = self.y[cost.argsort()[: len(self.w)]]
        yw = self.w @ y
        self.mean = self.mean + self.sigma * yw
        inv = self.B @ ((self.B.T @ yw) / self.D)
        self.ps = (1 - self.cs) * self.ps + math.sqrt(self.cs * (2 - self.cs) * self.mueff) * inv
        self.pc = (1 - self.cc) * self.pc + math.sqrt(self.cc * (2 - self.cc) * self.mueff) * yw
        rank_mu = (y * self.w[:, None]).T @ y
        self.C = (
            (1 - self.c1 - self.cmu) * self.C + self.c1 * torch.outer(self.pc, self.pc) + self.cmu * rank_mu
        )
        self.sigma *= math.exp(self.cs / self.damp * (self.ps.norm().item() / self.chi - 1))


@torch.no_grad()
def main():
    gen = torch.Generator(device="cuda").manual_seed(18)
    es = CMAES(DIM, 512, 0.5, gen)
    for it in range(36):
        start = 0.2 * torch.randn(256, 4, device="cuda", generator=gen)
        cost = rollout(es.ask(), start)
        es.tell(cost)
    print("best cost %.4f median %.4f sigma %.4f" % (cost.min().item(), cost.median().item(), es.sigma))


if __name__ == "__main__":
    main()
