"""Attentive neural process for continuous glucose traces: given the few finger-stick
readings of a day, predict the whole 24 h curve with uncertainty."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(os.environ.get("STEPS", "150"))
EVAL_EVERY = int(os.environ.get("EVAL_EVERY", "50"))
BATCH, N_TARGET = 20, 96
DIM, HEADS = 64, 4


def draw_days(n, n_pts, gen):
    """Hours scaled to [0, 1]; glucose in standardised units."""
    t = torch.rand(n, n_pts, generator=gen).sort(1).values
    base = 0.4 * torch.randn(n, 1, generator=gen)
    amp = 0.6 + 0.3 * torch.randn(n, 3, generator=gen).abs()
    when = torch.tensor([0.31, 0.53, 0.79]) + 0.03 * torch.randn(n, 3, generator=gen)
    rise = 0.015 + 0.015 * torch.rand(n, 3, generator=gen)
    decay = 0.05 + 0.06 * torch.rand(n, 3, generator=gen)
    lag = (t[:, :, None] - when[:, None]).clamp(min=0)
    meal = amp[:, None] * (1 - torch.exp(-lag / rise[:, None])) * torch.exp(-lag / decay[:, None])
    dawn = 0.25 * torch.exp(-(((t - 0.22) / 0.06) ** 2))
    y = base + 2.0 * meal.sum(-1) + dawn - 0.6
    y = y + 0.05 * torch.randn(n, n_pts, generator=gen)
    return t[..., None], y[..., None]


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.GELU()]
    return nn.Sequential(*layers[:-1])


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, q, k, v):
        split = lambda x: x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        out = F.scaled_dot_product_attention(split(self.q(q)), split(self.k(k)), split(self.v(v)))
        return self.o(out.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = Attention(dim, heads)
        self.ff = mlp(dim, 2 * dim, dim)

    def forward(self, x):
        h = self.n1(x)
        x = x + self.att(h, h, h)
        return x + self.ff(self.n2(x))


class ANP(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("freq", torch.pi * torch.arange(1, 17).float())
        self.xemb = mlp(32, DIM, DIM)
        self.pair = mlp(33, DIM, DIM)
        self.enc = nn.ModuleList([EncoderLayer(DIM, HEADS) for _ in range(2)])
        self.latent = mlp(DIM, DIM, 2 * DIM)
        self.cross = Attention(DIM, HEADS)
        self.dec = mlp(3 * DIM, 128, 128, 2)

    def fourier(self, x):
        a = x * self.freq
        return torch.cat([a.sin(), a.cos()], -1)

    def summarise(self, pairs_x, pairs_y):
        r = self.pair(torch.cat([pairs_x, pairs_y], -1))
        for layer in self.enc:
            r = layer(r)
        mu, raw = self.latent(r.mean(1)).chunk(2, -1)
        return r, mu, 0.1 + 0.9 * torch.sigmoid(raw)

    def forward(self, xc, yc, xt, yt=None):
        fc, ft = self.fourier(xc), self.fourier(xt)
        r, mu, sd = self.summarise(fc, yc)
        kl = None
        if self.training and yt is not None:
            _, mq, sq = self.summarise(ft, yt)
            z = mq + sq * torch.randn_like(sq)
            kl = (torch.log(sd / sq) + (sq**2 + (mq - mu) ** 2) / (2 * sd**2) - 0.5).sum(-1).mean()
        else:
            z = mu
        det = self.cross(self.xemb(ft), self.xemb(fc), r)
        h = torch.cat([self.xemb(ft), det, z[:, None].expand(-1, xt.shape[1], -1)], -1)
        mean, raw = self.dec(h).chunk(2, -1)
        return mean, 0.05 + F.softplus(raw), kl


def log_lik(mean, sd, y):
    return (-0.5 * ((y - mean) / sd) ** 2 - sd.log() - 0.9189385).mean()


@torch.no_grad()
def evaluate(model, gen, contexts=(4, 8, 16, 32)):
    model.eval()
    rows = []
    for n in contexts:
        x, y = draw_days(64, n + 144, gen)
        perm = torch.randperm(n + 144, generator=gen)
        c, t = perm[:n], perm[n:]
        m, s, _ = model(x[:, c], y[:, c], x[:, t])
        cover = ((y[:, t] - m).abs() < 1.645 * s).float().mean().item()
        rows.append((n, (m - y[:, t]).square().mean().sqrt().item(), log_lik(m, s, y[:, t]).item(), cover))
    model.train()
    return rows


def main():
    torch.manual_seed(7)
    gen = torch.Generator().manual_seed(8)
    net = ANP()
    model = torch.compile(net)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    t0 = time.perf_counter()
    for step in range(1, STEPS + 1):
        n_ctx = int(torch.randint(3, 49, (1,), generator=gen))
        x, y = draw_days(BATCH, n_ctx + N_TARGET, gen)
        perm = torch.randperm(n_ctx + N_TARGET, generator=gen)
        c = perm[:n_ctx]
        mean, sd, kl = model(x[:, c], y[:, c], x[:, perm[n_ctx:]], y[:, perm[n_ctx:]])
        loss = -log_lik(mean, sd, y[:, perm[n_ctx:]]) + kl / N_TARGET
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % EVAL_EVERY == 0:
            line = "  ".join(
                f"n={n}: rmse {r:.3f} ll {l:+.2f} c90 {c:.2f}" for n, r, l, c in evaluate(model, gen)
            )
            print(f"step {step:4d}  loss {loss.item():+.3f} | {line}")
    el = time.perf_counter() - t0
    print(f"{STEPS} steps in {el:.2f} s, {STEPS * BATCH / el:.0f} days/s")


if __name__ == "__main__":
    main()
