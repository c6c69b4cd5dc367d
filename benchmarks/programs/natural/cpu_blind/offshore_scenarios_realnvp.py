"""Day-ahead scenarios of an offshore wind farm with a conditional RealNVP.

The 24 hourly outputs of a day (logit of the capacity factor) are modelled given the
weather forecast (24 wind speeds and day-of-year harmonics).  After training by
maximum likelihood, scenarios are drawn for test days and scored with the energy
score, the pinball loss and interval coverage.
"""

import math

import torch
import torch.nn as nn

torch.manual_seed(1)

HOURS = 24
COND = HOURS + 2


def power_curve(v):
    return ((v.clamp(3.0, 12.5) - 3.0) / 9.5) ** 3 * (1 - torch.sigmoid((v - 25.0) * 2.0))


def make_days(n):
    doy = torch.rand(n) * 2 * math.pi
    wind = torch.zeros(n, HOURS)
    err = torch.zeros(n, HOURS)
    level = 9.0 + 2.0 * torch.cos(doy)
    x = torch.randn(n) * 3.0
    e = torch.randn(n) * 0.8
    for h in range(HOURS):
        x = 0.93 * x + 1.1 * torch.randn(n)
        e = 0.85 * e + 0.6 * torch.randn(n)
        wind[:, h] = (level + x).clamp(0.5, 32.0)
        err[:, h] = e
    actual = power_curve(wind + err)
    y = actual.clamp(0.01, 0.99)
    y = torch.log(y / (1 - y)) + 0.05 * torch.randn(n, HOURS)
    cond = torch.cat([(wind - 9) / 4, torch.stack([doy.cos(), doy.sin()], 1)], 1)
    return y, cond


class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(dim))
        self.logs = nn.Parameter(torch.zeros(dim))
        self.register_buffer("ready", torch.tensor(False))

    def forward(self, x):
        if not self.ready:
            with torch.no_grad():
                self.bias.copy_(-x.mean(0))
                self.logs.copy_(-torch.log(x.std(0) + 1e-6))
                self.ready.fill_(True)
        return (x + self.bias) * self.logs.exp(), self.logs.sum()

    def inverse(self, z):
        return z * (-self.logs).exp() - self.bias


class Coupling(nn.Module):
    def __init__(self, dim, cond, hidden, flip):
        super().__init__()
        mask = (torch.arange(dim) % 2 == int(flip)).float()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(
            nn.Linear(dim + cond, hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.SiLU(),
            nn.Linear(hidden, 2 * dim),
        )
        self.scale = nn.Parameter(torch.full((dim,), 0.5))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def st(self, kept, c):
        s, t = self.net(torch.cat([kept, c], 1)).chunk(2, 1)
        free = 1 - self.mask
        return torch.tanh(s) * self.scale * free, t * free

    def forward(self, x, c):
        kept = x * self.mask
        s, t = self.st(kept, c)
        return kept + (1 - self.mask) * (x * s.exp() + t), s.sum(1)

    def inverse(self, z, c):
        kept = z * self.mask
        s, t = self.st(kept, c)
        return kept + (1 - self.mask) * ((z - t) * (-s).exp())


class RealNVP(nn.Module):
    def __init__(self, layers=6, hidden=128):
        super().__init__()
        self.norms = nn.ModuleList(ActNorm(HOURS) for _ in range(layers))
        self.couplings = nn.ModuleList(Coupling(HOURS, COND, hidden, i % 2) for i in range(layers))

    def forward(self, y, c):
        logdet = torch.zeros(y.shape[0])
        for norm, coupling in zip(self.norms, self.couplings):
            y, ld = norm(y)
            logdet = logdet + ld
            y, ld = coupling(y, c)
            logdet = logdet + ld
        base = -0.5 * (y**2).sum(1) - 0.5 * HOURS * math.log(2 * math.pi)
        return base + logdet

    @torch.no_grad()
    def sample(self, c, n):
        c = c.repeat_interleave(n, 0)
        z = torch.randn(c.shape[0], HOURS)
        for norm, coupling in zip(reversed(self.norms), reversed(self.couplings)):
            z = norm.inverse(coupling.inverse(z, c))
        return torch.sigmoid(z).view(-1, n, HOURS)


def main():
    y, cond = make_days(6000)
    y_test, c_test = make_days(200)
    flow = RealNVP()
    log_prob = torch.compile(flow)
    opt = torch.optim.Adam(flow.parameters(), lr=1e-3)
    batch = 256
    for epoch in range(30):
        perm = torch.randperm(len(y))
        total = 0.0
        for i in range(0, len(y), batch):
            idx = perm[i : i + batch]
            loss = -log_prob(y[idx], cond[idx]).mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
            opt.step()
            total += loss.item() * len(idx)
        if epoch % 10 == 0 or epoch == 29:
            print(f"epoch {epoch}: nll per day {total / len(y):.3f}")

    actual = torch.sigmoid(y_test)
    scen = flow.sample(c_test, 100)
    to_obs = (scen - actual[:, None]).norm(dim=2).mean(1)
    between = torch.cdist(scen, scen).mean((1, 2))
    q = torch.quantile(scen, torch.tensor([0.1, 0.5, 0.9]), dim=1)
    diff = actual - q
    tau = torch.tensor([0.1, 0.5, 0.9]).view(3, 1, 1)
    pinball = torch.maximum(tau * diff, (tau - 1) * diff).mean((1, 2))
    cover = ((actual >= q[0]) & (actual <= q[2])).float().mean()
    print(f"test nll {-flow(y_test, c_test).mean():.3f}, energy score {(to_obs - 0.5 * between).mean():.4f}")
    print("pinball 10/50/90:", [round(p, 4) for p in pinball.tolist()], f"80% interval covers {cover:.3f}")


if __name__ == "__main__":
    main()
