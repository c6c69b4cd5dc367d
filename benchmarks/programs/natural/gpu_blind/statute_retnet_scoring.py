"""Perplexity of long statutes under a RetNet language model, in chunk-recurrent form.

Each document is read in chunks of 512 tokens; within a chunk retention is computed in parallel, between chunks a
state of (key dim x value dim) per head is carried. Outliers in per-chunk perplexity point to OCR damage.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
device = "cuda"

VOCAB = 32000
DIM = 1024
HEADS = 4
LAYERS = 10
CHUNK = 512
DOC_LEN = 8192
DOCS = 160
BATCH = 16


def rotate_every_two(x):
    x1, x2 = x[..., ::2], x[..., 1::2]
    return torch.stack((-x2, x1), dim=-1).flatten(-2)


class MultiScaleRetention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIM, DIM, bias=False)
        self.k = nn.Linear(DIM, DIM, bias=False)
        self.v = nn.Linear(DIM, 2 * DIM, bias=False)
        self.g = nn.Linear(DIM, 2 * DIM, bias=False)
        self.out = nn.Linear(2 * DIM, DIM, bias=False)
        self.norm = nn.LayerNorm(2 * DIM // HEADS, elementwise_affine=False)

    def forward(self, x, rel_pos, state):
        sin, cos, mask, cross_decay, value_decay, chunk_decay = rel_pos
        b, n, _ = x.shape
        q = self.q(x).view(b, n, HEADS, -1).transpose(1, 2)
        k = self.k(x).view(b, n, HEADS, -1).transpose(1, 2) * (DIM // HEADS) ** -0.5
        v = self.v(x).view(b, n, HEADS, -1).transpose(1, 2)
        q = q * cos + rotate_every_two(q) * sin
        k = k * cos + rotate_every_two(k) * sin

        inner = (q @ k.transpose(-1, -2)) * mask
        out = inner @ v
        kv = k.transpose(-1, -2) @ (v * value_decay)
        if state is not None:
            out = out + (q @ state) * cross_decay
            kv = kv + state * chunk_decay
        out = self.norm(out.float()).to(x.dtype)
        out = out.transpose(1, 2).reshape(b, n, -1)
        return self.out(F.silu(self.g(x)) * out), kv


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.RMSNorm(DIM)
        self.norm2 = nn.RMSNorm(DIM)
        self.retention = MultiScaleRetention()
        self.up = nn.Linear(DIM, 2 * DIM, bias=False)
        self.gate = nn.Linear(DIM, 2 * DIM, bias=False)
        self.down = nn.Linear(2 * DIM, DIM, bias=False)

    def forward(self, x, rel_pos, state):
        h, state = self.retention(self.norm1(x), rel_pos, state)
        x = x + h
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), state


class RetNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(DIM)
        dk = DIM // HEADS
        angle = 1.0 / (10000 ** torch.linspace(0, 1, dk // 2))
        self.register_buffer("angle", angle.repeat_interleave(2), persistent=False)
        decay = torch.log(1 - 2 ** (-5.0 - torch.arange(HEADS)))
        self.register_buffer("decay", decay, persistent=False)

    def rel_pos(self, offset, n, dtype):
        dev = self.angle.device
        pos = torch.arange(offset, offset + n, device=dev)
        ang = pos[:, None].float() * self.angle
        i = torch.arange(n, device=dev).float()
        dist = i[:, None] - i[None, :]
        mask = torch.exp(dist.clamp(min=0) * self.decay[:, None, None]) * (dist >= 0)
        cross = torch.exp((i + 1)[None, :, None] * self.decay[:, None, None])
        value = torch.exp((n - 1 - i)[None, :, None] * self.decay[:, None, None])
        chunk = torch.exp(n * self.decay)[:, None, None]
        return [t.to(dtype) for t in (ang.sin(), ang.cos(), mask, cross, value, chunk)]

    def forward(self, tokens, targets, states=None, offset=0):
        x = self.embed(tokens)
        rel = self.rel_pos(offset, tokens.shape[1], x.dtype)
        new_states = []
        for i, layer in enumerate(self.layers):
            x, s = layer(x, rel, None if states is None else states[i])
            new_states.append(s)
        logits = self.norm(x) @ self.embed.weight.t()
        nll = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="none")
        return nll.view(tokens.shape), new_states


@torch.inference_mode()
def score(model, docs):
    nll = torch.empty(len(docs), DOC_LEN // CHUNK, device=device)
    for start in range(0, len(docs), BATCH):
        batch = docs[start : start + BATCH].to(device)
        states = None
        for c in range(DOC_LEN // CHUNK):
            lo = c * CHUNK
            loss, states = model(batch[:, lo : lo + CHUNK], batch[:, lo + 1 : lo + CHUNK + 1], states, lo)
            nll[start : start + BATCH, c] = loss.mean(dim=1)
    return nll


def main():
    model = RetNet()
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    model = model.to(device, torch.bfloat16).eval()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f} M parameters")
    model.compile()

    ranks = torch.arange(1, VOCAB + 1).float()
    docs = torch.multinomial(1 / ranks, DOCS * (DOC_LEN + 1), replacement=True).view(DOCS, DOC_LEN + 1)
    docs[::10, 3000:3600] = torch.randint(0, VOCAB, (len(docs[::10]), 600))  # scanner noise
    nll = score(model, docs)
    print(f"mean nll {nll.mean().item():.4f}")
    worst = nll.flatten().topk(5)
    for v, j in zip(worst.values.tolist(), worst.indices.tolist()):
        print(f"doc {j // (DOC_LEN // CHUNK):3d} chunk {j % (DOC_LEN // CHUNK):2d}: {v:.4f}")


if __name__ == "__main__":
    main()
