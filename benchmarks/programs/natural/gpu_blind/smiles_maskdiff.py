"""Sample molecule strings from a masked discrete diffusion model (MDLM style).

All positions start as <mask>; in each reverse step the network predicts every token,
and the most confident masked positions are committed following a cosine schedule.
"""

import argparse
import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEVICE = torch.device("cpu" if SMOKE else "cuda")
DTYPE = torch.bfloat16

ALPHABET = list("CNOSPFIBHcnosp()[]=#-+123456789%/\\@.") + ["Cl", "Br", "<eos>", "<pad>", "<mask>"]
V = len(ALPHABET)
MASK, PADTOK, EOS = V - 1, V - 2, V - 3


def time_features(t, dim):
    freqs = torch.exp(-math.log(1e4) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    a = t[:, None] * 1000 * freqs[None]
    return torch.cat([a.sin(), a.cos()], dim=-1)


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h = heads
        self.n1 = nn.LayerNorm(d, elementwise_affine=False)
        self.n2 = nn.LayerNorm(d, elementwise_affine=False)
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.proj = nn.Linear(d, d, bias=False)
        self.fc1 = nn.Linear(d, 4 * d)
        self.fc2 = nn.Linear(4 * d, d)
        self.mod = nn.Linear(d, 6 * d)

    def forward(self, x, c):
        s1, b1, g1, s2, b2, g2 = self.mod(F.silu(c)).unsqueeze(1).chunk(6, dim=-1)
        B, L, D = x.shape
        h = self.n1(x) * (1 + s1) + b1
        q, k, v = self.qkv(h).view(B, L, 3, self.h, D // self.h).transpose(1, 3).unbind(2)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, L, D)
        x = x + g1 * self.proj(a)
        h = self.n2(x) * (1 + s2) + b2
        return x + g2 * self.fc2(F.gelu(self.fc1(h), approximate="tanh"))


class Denoiser(nn.Module):
    def __init__(self, d, depth, heads, length):
        super().__init__()
        self.d = d
        self.tok = nn.Embedding(V, d)
        self.pos = nn.Parameter(torch.randn(length, d) * 0.02)
        self.tmlp = nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, d))
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, V)

    def forward(self, x, t):
        c = self.tmlp(time_features(t, self.d).to(self.pos.dtype))
        h = self.tok(x) + self.pos
        for blk in self.blocks:
            h = blk(h, c)
        return self.head(self.norm(h))


class Sampler:
    def __init__(self, net, length, temperature):
        self.net = net
        self.length = length
        self.temperature = temperature
        self.step = torch.compile(self._step)

    def _step(self, x, t, n_commit):
        logits = self.net(x, t).float() / self.temperature
        logits[..., MASK] = float("-inf")
        probs = torch.softmax(logits, dim=-1)
        draw = torch.multinomial(probs.view(-1, V), 1).view(x.shape)
        conf = probs.gather(-1, draw.unsqueeze(-1)).squeeze(-1)
        conf = torch.where(x == MASK, conf, torch.full_like(conf, -1.0))
        pick = conf.topk(n_commit, dim=1).indices
        return x.scatter(1, pick, draw.gather(1, pick))

    @torch.no_grad()
    def sample(self, batch, steps):
        x = torch.full((batch, self.length), MASK, dtype=torch.long, device=DEVICE)
        left = [round(self.length * math.cos(math.pi / 2 * (i + 1) / steps)) for i in range(steps)]
        prev, calls = self.length, 0
        for i, l in enumerate(left):
            n = prev - l
            if n <= 0:
                continue
            t = torch.full((batch,), 1.0 - i / steps, device=DEVICE)
            x = self.step(x, t, n)
            prev = l
            calls += 1
        return x, calls


def to_string(row):
    out = []
    for tok in row:
        if tok == EOS:
            break
        if tok != PADTOK:
            out.append(ALPHABET[tok])
    return "".join(out)


def balanced(s):
    depth = 0
    for ch in s:
        depth += ch == "("
        depth -= ch == ")"
        if depth < 0:
            return False
    return depth == 0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rounds", type=int, default=1 if SMOKE else 24)
    ap.add_argument("--batch", type=int, default=2 if SMOKE else 32)
    ap.add_argument("--length", type=int, default=12 if SMOKE else 96)
    ap.add_argument("--steps", type=int, default=3 if SMOKE else 48)
    ap.add_argument("--temperature", type=float, default=0.9)
    args = ap.parse_args()
    torch.manual_seed(5)
    d, depth, heads = (32, 2, 4) if SMOKE else (384, 8, 6)
    net = Denoiser(d, depth, heads, args.length).to(DEVICE, DTYPE).eval()
    sampler = Sampler(net, args.length, args.temperature)

    strings, calls = [], 0
    t_first = None
    for r in range(args.rounds):
        t0 = time.perf_counter()
        x, n = sampler.sample(args.batch, args.steps)
        rows = x.tolist()
        dt = time.perf_counter() - t0
        t_first = t_first or dt
        calls += n
        strings += [to_string(row) for row in rows]
        print(f"round {r:2d}: {args.batch / dt:8.1f} mol/s, {1e3 * dt / n:6.2f} ms/step", flush=True)
        assert (x != MASK).all()
    ok = sum(balanced(s) for s in strings)
    print(
        f"{len(strings)} strings, {len(set(strings))} unique, {ok} with balanced brackets, "
        f"{calls} reverse steps (first round {t_first:.1f} s)"
    )
    print("example:", strings[0][:60])


if __name__ == "__main__":
    main()
