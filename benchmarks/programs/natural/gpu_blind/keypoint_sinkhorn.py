"""Attentional keypoint matching between image pairs with a log-domain Sinkhorn layer."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

PAIRS = max(2, int(8 * SCALE))
KPTS = max(48, int(512 * min(1.0, SCALE**0.5)))
DIM = 256
LAYERS = 4
SINK_ITERS = 20
STEPS = 50


class Attend(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.merge = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(
            nn.Linear(2 * dim, 2 * dim), nn.LayerNorm(2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)
        )

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, source):
        q = self.split(self.q(x))
        k, v = (self.split(t) for t in self.kv(source).chunk(2, dim=-1))
        o = F.scaled_dot_product_attention(q, k, v)
        o = self.merge(o.transpose(1, 2).flatten(2))
        return x + self.mlp(torch.cat([x, o], dim=-1))


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.pos = nn.Sequential(nn.Linear(3, 64), nn.GELU(), nn.Linear(64, DIM))
        self.self_att = nn.ModuleList([Attend(DIM) for _ in range(LAYERS)])
        self.cross_att = nn.ModuleList([Attend(DIM) for _ in range(LAYERS)])
        self.proj = nn.Linear(DIM, DIM)
        self.bin_score = nn.Parameter(torch.tensor(1.0))

    def sinkhorn(self, scores):
        b, m, n = scores.shape
        col = self.bin_score.float().expand(b, m, 1)
        row = self.bin_score.float().expand(b, 1, n + 1)
        z = torch.cat([torch.cat([scores, col], dim=2), row], dim=1)
        norm = -torch.log(torch.tensor(float(m + n), device=z.device))
        log_mu = torch.cat([norm.expand(m), norm.view(1) + torch.log(torch.full_like(norm, n)).view(1)])
        log_nu = torch.cat([norm.expand(n), norm.view(1) + torch.log(torch.full_like(norm, m)).view(1)])
        u = torch.zeros(b, m + 1, device=z.device)
        v = torch.zeros(b, n + 1, device=z.device)
        for _ in range(SINK_ITERS):
            u = log_mu - torch.logsumexp(z + v.unsqueeze(1), dim=2)
            v = log_nu - torch.logsumexp(z + u.unsqueeze(2), dim=1)
        return z + u.unsqueeze(2) + v.unsqueeze(1) - norm

    def forward(self, d0, k0, d1, k1):
        x0, x1 = d0 + self.pos(k0), d1 + self.pos(k1)
        for s, c in zip(self.self_att, self.cross_att):
            x0, x1 = s(x0, x0), s(x1, x1)
            x0, x1 = c(x0, x1), c(x1, x0)
        scores = torch.einsum("bmd,bnd->bmn", self.proj(x0), self.proj(x1)) / DIM**0.5
        p = self.sinkhorn(scores.float())[:, :-1, :-1]
        v0, i0 = p.max(dim=2)
        i1 = p.argmax(dim=1)
        mutual = i1.gather(1, i0) == torch.arange(p.size(1), device=p.device)
        return i0, torch.where(mutual, v0.exp(), torch.zeros_like(v0))


def make_pair(gen, dtype):
    desc = F.normalize(torch.randn(PAIRS, KPTS, DIM, generator=gen), dim=-1) * 4
    kp = torch.rand(PAIRS, KPTS, 3, generator=gen) * 2 - 1
    perm = torch.randperm(KPTS, generator=gen)
    d1 = desc[:, perm] + 0.05 * torch.randn(desc.shape, generator=gen)
    k1 = kp[:, perm] + 0.02
    return [t.to(DEVICE, dtype) for t in (desc, kp, d1, k1)]


def main():
    torch.manual_seed(2)
    gen = torch.Generator().manual_seed(9)
    dtype = torch.float16 if DEVICE == "cuda" else torch.float32
    model = Matcher().to(DEVICE, dtype).eval()
    matcher = torch.compile(model, mode="reduce-overhead")
    pool = [make_pair(gen, dtype) for _ in range(5)]

    found = torch.zeros((), device=DEVICE)
    with torch.inference_mode():
        for step in range(STEPS):
            if step == 10:
                if DEVICE == "cuda":
                    torch.cuda.synchronize()
                t0 = time.perf_counter()
            idx, conf = matcher(*pool[step % len(pool)])
            found += (conf > 0).sum()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    ms = (time.perf_counter() - t0) / (STEPS - 10) * 1e3
    print(
        f"{ms:.2f} ms per batch of {PAIRS} pairs, matches/pair "
        f"{found.item() / (STEPS * PAIRS):.1f}, confidence {conf.mean().item():.6f}"
    )


if __name__ == "__main__":
    main()
