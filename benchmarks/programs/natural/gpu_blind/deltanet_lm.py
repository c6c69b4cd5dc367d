"""DeltaNet language model with the chunkwise-parallel delta rule (WY representation)."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

SMALL = SCALE < 0.5
HEADS = max(2, int(6 * SCALE))
HEAD_DIM = 128 if not SMALL else 16
D = HEADS * HEAD_DIM
LAYERS = max(1, int(6 * SCALE))
SEQ = 1024 if not SMALL else 64
CHUNK = 32 if not SMALL else 8
BATCH = max(2, int(8 * SCALE))
VOCAB = max(256, int(32000 * SCALE))
STEPS = 40 if not SMALL else 8


def delta_rule_chunkwise(q, k, v, beta, chunk):
    """q, k, v: (b, h, t, d); beta: (b, h, t)."""
    b, h, t, d = q.shape
    q, k, v = (x.float() for x in (q, k, v))
    beta = beta.float()
    q = q * d**-0.5
    k_beta, v = k * beta[..., None], v * beta[..., None]
    n = t // chunk
    q, k, v, k_beta = (x.reshape(b, h, n, chunk, d) for x in (q, k, v, k_beta))
    upper = torch.triu(torch.ones(chunk, chunk, dtype=torch.bool, device=q.device), diagonal=0)
    attn = -(k_beta @ k.transpose(-1, -2)).masked_fill(upper, 0)
    for i in range(1, chunk):
        attn[..., i, :i] = attn[..., i, :i] + (attn[..., i, :, None].clone() * attn[..., :, :i].clone()).sum(
            -2
        )
    attn = attn + torch.eye(chunk, dtype=torch.float, device=q.device)
    u = attn @ v
    w = attn @ k_beta
    strict = torch.triu(torch.ones(chunk, chunk, dtype=torch.bool, device=q.device), diagonal=1)
    state = q.new_zeros(b, h, d, d)
    out = torch.zeros_like(v)
    for i in range(n):
        q_i, k_i = q[:, :, i], k[:, :, i]
        a = (q_i @ k_i.transpose(-1, -2)).masked_fill(strict, 0)
        u_i = u[:, :, i] - w[:, :, i] @ state
        out[:, :, i] = q_i @ state + a @ u_i
        state = state + k_i.transpose(-1, -2) @ u_i
    return out.reshape(b, h, t, d)


class ShortConv(nn.Module):
    def __init__(self, d, width=4):
        super().__init__()
        self.conv = nn.Conv1d(d, d, width, groups=d, padding=width - 1, bias=False)

    def forward(self, x):
        t = x.shape[1]
        return F.silu(self.conv(x.transpose(1, 2))[..., :t].transpose(1, 2))


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * self.weight).to(x.dtype)


class DeltaNetBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(D), RMSNorm(D)
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(D, D, bias=False) for _ in range(3))
        self.b_proj = nn.Linear(D, HEADS, bias=False)
        self.q_conv, self.k_conv, self.v_conv = ShortConv(D), ShortConv(D), ShortConv(D)
        self.o_norm = RMSNorm(HEAD_DIM)
        self.o_proj = nn.Linear(D, D, bias=False)
        hidden = int(D * 8 / 3 / 64) * 64 if not SMALL else 2 * D
        self.gate, self.up = nn.Linear(D, hidden, bias=False), nn.Linear(D, hidden, bias=False)
        self.down = nn.Linear(hidden, D, bias=False)

    def heads(self, x):
        b, t, _ = x.shape
        return x.view(b, t, HEADS, HEAD_DIM).transpose(1, 2)

    def forward(self, x):
        h = self.norm1(x)
        q = self.heads(self.q_conv(self.q_proj(h)))
        k = self.heads(self.k_conv(self.k_proj(h)))
        v = self.heads(self.v_conv(self.v_proj(h)))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        beta = self.b_proj(h).sigmoid().transpose(1, 2)
        o = delta_rule_chunkwise(q, k, v, beta, CHUNK).to(x.dtype)
        o = self.o_norm(o).transpose(1, 2).reshape(x.shape)
        x = x + self.o_proj(o)
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class DeltaNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, D)
        self.blocks = nn.ModuleList([DeltaNetBlock() for _ in range(LAYERS)])
        self.norm = RMSNorm(D)
        self.head = nn.Linear(D, VOCAB, bias=False)
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, ids, labels):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def main():
    torch.manual_seed(0)
    model = DeltaNet().to(DEVICE)
    for block in model.blocks:
        block.compile()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 10))
    corpus = (torch.randn(200_000).abs() * VOCAB / 6).long().clamp(max=VOCAB - 1)
    losses = []
    for step in range(STEPS):
        start = torch.randint(0, len(corpus) - SEQ - 1, (BATCH,))
        ids = torch.stack([corpus[s : s + SEQ + 1] for s in start.tolist()]).to(DEVICE)
        tic = time.perf_counter()
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model(ids[:, :-1], ids[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        opt.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if step % 5 == 0:
            tok = BATCH * SEQ / (time.perf_counter() - tic)
            print(f"step {step} loss {losses[-1]:.4f} {tok:,.0f} tok/s")
    print(f"final loss {sum(losses[-5:]) / 5:.4f}")


if __name__ == "__main__":
    main()
