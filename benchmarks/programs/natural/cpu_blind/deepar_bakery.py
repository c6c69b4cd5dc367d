"""Daily pastry demand per shop: DeepAR-style LSTM with a negative-binomial head.

Trains on random windows of all (shop, product) series, then draws sample paths two weeks ahead and
reports pinball losses and coverage per product.
"""

import time

import numpy as np
import torch
from torch import nn

N_SERIES, DAYS, PAST, AHEAD = 160, 400, 42, 14
PRODUCTS = ["croissant", "rye loaf", "eclair", "pretzel", "bun"]
SAMPLES = 60


def make_sales(seed):
    rng = np.random.default_rng(seed)
    t = np.arange(DAYS)
    product = rng.integers(0, len(PRODUCTS), N_SERIES)
    level = rng.lognormal(2.6, 0.8, N_SERIES)
    week = 1 + 0.5 * rng.normal(0, 0.5, (len(PRODUCTS), 7))
    rate = level[:, None] * np.clip(week[product][:, t % 7], 0.1, None)
    rate *= 1 + 0.3 * np.sin(2 * np.pi * (t / 365 + rng.random((N_SERIES, 1))))
    rate *= np.exp(np.cumsum(rng.normal(0, 0.01, (N_SERIES, DAYS)), 1))
    disp = rng.uniform(2, 12, (N_SERIES, 1))
    sales = rng.poisson(rng.gamma(disp, rate / disp))
    closed = rng.random((N_SERIES, DAYS)) < 0.02
    sales[closed] = 0
    return torch.from_numpy(sales.astype(np.float32)), torch.from_numpy(product)


class DemandNet(nn.Module):
    def __init__(self, hidden=64, layers=2):
        super().__init__()
        self.series = nn.Embedding(N_SERIES, 12)
        self.product = nn.Embedding(len(PRODUCTS), 6)
        self.weekday = nn.Embedding(7, 4)
        self.rnn = nn.LSTM(1 + 2 + 12 + 6 + 4, hidden, layers, batch_first=True, dropout=0.1)
        self.mean = nn.Linear(hidden, 1)
        self.shape = nn.Linear(hidden, 1)

    def forward(self, prev, day, sid, pid, scale, state=None):
        """prev: scaled sales of the day before, (B, T); day: (B, T) day numbers."""
        season = 2 * torch.pi * day / 365
        b, t = prev.shape
        static = torch.cat([self.series(sid), self.product(pid)], -1)[:, None].expand(b, t, -1)
        feats = torch.cat(
            [
                torch.log1p(prev)[..., None],
                torch.sin(season)[..., None],
                torch.cos(season)[..., None],
                self.weekday(day % 7),
                static,
            ],
            -1,
        )
        h, state = self.rnn(feats, state)
        mu = nn.functional.softplus(self.mean(h)).squeeze(-1) * scale[:, None] + 1e-3
        alpha = nn.functional.softplus(self.shape(h)).squeeze(-1) / scale.sqrt()[:, None] + 1e-3
        return mu, alpha, state


def neg_binomial_nll(z, mu, alpha):
    r = 1 / alpha
    am = alpha * mu
    return -(
        torch.lgamma(z + r)
        - torch.lgamma(z + 1)
        - torch.lgamma(r)
        - r * torch.log1p(am)
        + z * (torch.log(am) - torch.log1p(am))
    )


class Forecaster:
    def __init__(self, sales, product):
        self.sales, self.product = sales, product
        self.net = DemandNet()
        self.fast = torch.compile(self.net)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=6e-3)

    def windows(self, n, last_day):
        sid = torch.randint(0, N_SERIES, (n,))
        start = torch.randint(1, last_day - PAST - AHEAD, (n,))
        day = start[:, None] + torch.arange(PAST + AHEAD)
        z = self.sales[sid[:, None], day]
        prev = self.sales[sid[:, None], day - 1]
        scale = z[:, :PAST].mean(1) + 1
        return z, prev / scale[:, None], day, sid, self.product[sid], scale

    def fit(self, steps, batch, last_day):
        self.net.train()
        t0 = time.perf_counter()
        for s in range(1, steps + 1):
            z, prev, day, sid, pid, scale = self.windows(batch, last_day)
            mu, alpha, _ = self.fast(prev, day, sid, pid, scale)
            loss = neg_binomial_nll(z, mu, alpha).mean()
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
            self.opt.step()
            if s % 10 == 0:
                print(
                    f"step {s:3d}  nll {loss.item():.4f}  {s * batch / (time.perf_counter() - t0):.0f} windows/s"
                )

    @torch.no_grad()
    def sample_paths(self, sid, first_day):
        """SAMPLES paths for every series in sid, (SAMPLES, B, AHEAD)."""
        self.net.eval()
        day = first_day - PAST + torch.arange(PAST)
        hist = self.sales[sid][:, day]
        scale = hist.mean(1) + 1
        prev = self.sales[sid][:, day - 1] / scale[:, None]
        pid = self.product[sid]
        _, _, (h, c) = self.fast(prev, day.expand(len(sid), -1), sid, pid, scale)
        rep = lambda x: x.repeat_interleave(SAMPLES, 0)
        h, c = h.repeat_interleave(SAMPLES, 1), c.repeat_interleave(SAMPLES, 1)
        sid_r, pid_r, scale_r = rep(sid), rep(pid), rep(scale)
        z = rep(hist[:, -1])
        out = []
        for k in range(AHEAD):
            today = torch.full((len(sid_r), 1), first_day + k)
            mu, alpha, (h, c) = self.fast((z / scale_r)[:, None], today, sid_r, pid_r, scale_r, (h, c))
            r = 1 / alpha.squeeze(1)
            lam = torch._standard_gamma(r) * mu.squeeze(1) / r
            z = torch.poisson(lam)
            out.append(z)
        return torch.stack(out, 1).view(len(sid), SAMPLES, AHEAD).transpose(0, 1)


def pinball(truth, pred, q):
    d = truth - pred
    return torch.maximum(q * d, (q - 1) * d)


def main():
    torch.manual_seed(17)
    torch.set_num_threads(2)
    sales, product = make_sales(17)
    f = Forecaster(sales, product)
    split = DAYS - 3 * AHEAD
    f.fit(steps=80, batch=64, last_day=split)

    qs = torch.tensor([0.1, 0.5, 0.9])
    err, cover, vol, n_paths = (
        torch.zeros(len(PRODUCTS), 3),
        torch.zeros(len(PRODUCTS)),
        torch.zeros(len(PRODUCTS)),
        0,
    )
    count = torch.zeros(len(PRODUCTS))
    t0 = time.perf_counter()
    for origin in range(split, DAYS, AHEAD):
        for sid in torch.arange(N_SERIES).split(40):
            paths = f.sample_paths(sid, origin)
            n_paths += paths.shape[0] * paths.shape[1]
            truth = sales[sid, origin : origin + AHEAD]
            quant = torch.quantile(paths, qs, dim=0)
            for i, q in enumerate(qs):
                err[:, i].index_add_(0, product[sid], pinball(truth, quant[i], q).sum(1))
            inside = ((truth >= quant[0]) & (truth <= quant[2])).float().sum(1)
            cover.index_add_(0, product[sid], inside)
            vol.index_add_(0, product[sid], truth.sum(1))
            count.index_add_(0, product[sid], torch.full((len(sid),), float(AHEAD)))
    dt = time.perf_counter() - t0
    print(f"{n_paths} paths of {AHEAD} days in {dt:.2f} s")
    print(f"{'product':<12}{'wQL10':>8}{'wQL50':>8}{'wQL90':>8}{'cover80':>9}")
    for i, name in enumerate(PRODUCTS):
        w = (2 * err[i] / vol[i].clamp(min=1)).tolist()
        print(f"{name:<12}{w[0]:>8.3f}{w[1]:>8.3f}{w[2]:>8.3f}{(cover[i] / count[i]).item():>9.2f}")


if __name__ == "__main__":
    main()
