"""
Causal pretraining of a long-convolution language model on (fake) DNA contigs.

Contigs have very different lengths, so every batch is padded to its own longest member.
"""

import math
import os
import random
import time

import torch
import torch.nn.functional as F
from torch import nn

smoke = bool(int(os.getenv("SMOKE", "0")))
device = "cpu" if smoke else "cuda"

D_MODEL = 32 if smoke else 512
N_LAYER = 2 if smoke else 5
BATCH = 2 if smoke else 12
MAX_LEN = 256 if smoke else 4096
N_STEPS = 5 if smoke else 50
PAD = 4  # A C G T pad


class ImplicitFilter(nn.Module):
    """MLP over sinusoidal time features, with an exponential window."""

    def __init__(self, d, order=64, bands=8):
        super().__init__()
        self.bands = bands
        self.mlp = nn.Sequential(
            nn.Linear(2 * bands + 1, order),
            nn.GELU(),
            nn.Linear(order, order),
            nn.GELU(),
            nn.Linear(order, d, bias=False),
        )
        self.register_buffer("decay", torch.linspace(1.0, 30.0, d))

    def forward(self, L):
        t = torch.arange(L, device=self.decay.device, dtype=torch.float32) / MAX_LEN
        f = torch.arange(1, self.bands + 1, device=t.device)
        ang = 2 * math.pi * t[:, None] * f
        z = torch.cat([t[:, None], ang.sin(), ang.cos()], dim=-1)
        h = self.mlp(z) * torch.exp(-t[:, None] * self.decay)
        return h.t()  # (d, L)


def fftconv(u, k, bias):
    L = u.shape[-1]
    n = 2 * L
    k_f = torch.fft.rfft(k.float(), n=n) / n
    u_f = torch.fft.rfft(u.float(), n=n)
    y = torch.fft.irfft(u_f * k_f, n=n, norm="forward")[..., :L]
    return (y + u * bias[:, None]).to(u.dtype)


class HyenaBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.inp = nn.Linear(d, 3 * d)
        self.short = nn.Conv1d(3 * d, 3 * d, 3, padding=2, groups=3 * d)
        self.filt = ImplicitFilter(d)
        self.bias = nn.Parameter(torch.randn(d))
        self.out = nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        L = x.shape[1]
        z = self.inp(self.ln1(x)).transpose(1, 2)
        z = self.short(z)[..., :L]
        a, b, v = z.chunk(3, dim=1)
        v = fftconv(v * a, self.filt(L), self.bias)
        x = x + self.out((v * b).transpose(1, 2))
        return x + self.ff(self.ln2(x))


class DnaLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(5, D_MODEL)
        self.blocks = nn.ModuleList([HyenaBlock(D_MODEL) for _ in range(N_LAYER)])
        self.ln = nn.LayerNorm(D_MODEL)
        self.head = nn.Linear(D_MODEL, 5)

    def forward(self, ids):
        x = self.emb(ids)
        for b in self.blocks:
            x = b(x)
        return self.head(self.ln(x))


def make_contigs(n, rng):
    """Order-2 Markov sequences with planted tandem repeats."""
    table = [[rng.random() for _ in range(4)] for _ in range(16)]
    out = []
    for _ in range(n):
        L = int(min(MAX_LEN, max(MAX_LEN // 4, rng.lognormvariate(math.log(MAX_LEN * 0.5), 0.35))))
        s = [rng.randrange(4), rng.randrange(4)]
        while len(s) < L:
            if len(s) > 40 and rng.random() < 0.01:
                s += s[-12:] * 2
            else:
                s.append(rng.choices(range(4), table[4 * s[-2] + s[-1]])[0])
        out.append(torch.tensor(s[:L]))
    return out


def collate(seqs):
    return nn.utils.rnn.pad_sequence(seqs, batch_first=True, padding_value=PAD)


def main():
    rng = random.Random(7)
    torch.manual_seed(7)
    torch.backends.cuda.matmul.allow_tf32 = True
    contigs = make_contigs(8 if smoke else 240, rng)
    model = DnaLM().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.1)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 6e-4, total_steps=N_STEPS)
    model = torch.compile(model)

    t0, bases = time.time(), 0
    for step in range(N_STEPS):
        ids = collate(rng.sample(contigs, BATCH)).to(device)
        with torch.autocast(device, torch.bfloat16):
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD)
        opt.zero_grad()
        loss.backward()
        gn = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        bases += (ids != PAD).sum().item()
        if step % 5 == 0 or step == N_STEPS - 1:
            print(
                f"[{step:03d}] L={ids.shape[1]:5d} loss {loss.item():.4f} gnorm {gn.item():.2f} "
                f"{bases / (time.time() - t0) / 1e3:.0f} kb/s"
            )
    print("bits per base:", round(loss.item() / math.log(2), 4))


if __name__ == "__main__":
    main()
