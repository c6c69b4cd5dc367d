"""Greedy speculative decoding: a small draft model proposes K tokens, the big one checks them.

Weights are random; both models share a peaked bigram prior so that proposals are often accepted.
"""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
device = "cpu" if SMOKE else "cuda"
dtype = torch.float32 if SMOKE else torch.bfloat16
VOCAB = 256 if SMOKE else 32000


class RotaryCache:
    def __init__(self, head_dim, max_len=8192, base=10000.0):
        inv = base ** (-torch.arange(0, head_dim, 2, device=device).float() / head_dim)
        ang = torch.outer(torch.arange(max_len, device=device).float(), inv)
        self.cos, self.sin = ang.cos().to(dtype), ang.sin().to(dtype)

    def __call__(self, x, start):
        n = x.shape[-2]
        c, s = self.cos[start : start + n], self.sin[start : start + n]
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * c - b * s, a * s + b * c], dim=-1)


class Layer(nn.Module):
    def __init__(self, d, heads, rope):
        super().__init__()
        self.heads, self.rope = heads, rope
        self.n1, self.n2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.o = nn.Linear(d, d, bias=False)
        self.up = nn.Linear(d, 8 * d // 3 * 2, bias=False)
        self.down = nn.Linear(8 * d // 3, d, bias=False)

    def forward(self, x, mask, past):
        B, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(B, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        start = 0 if past is None else past[0].shape[2]
        q, k = self.rope(q, start), self.rope(k, start)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.o(y.transpose(1, 2).reshape(B, n, d))
        g, u = self.up(self.n2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(g) * u), (k, v)


class Decoder(nn.Module):
    def __init__(self, d, n_layers, heads, bigram):
        super().__init__()
        rope = RotaryCache(d // heads)
        self.emb = nn.Embedding(VOCAB, d)
        self.layers = nn.ModuleList([Layer(d, heads, rope) for _ in range(n_layers)])
        self.norm = nn.RMSNorm(d)
        self.head = nn.Linear(d, VOCAB, bias=False)
        self.register_buffer("bigram", bigram)

    def forward(self, ids, past=None):
        n = ids.shape[1]
        old = 0 if past is None else past[0][0].shape[2]
        pos = torch.arange(old, old + n, device=ids.device)
        mask = pos[:, None] >= torch.arange(old + n, device=ids.device)[None, :]
        x = self.emb(ids)
        present = []
        for i, layer in enumerate(self.layers):
            x, kv = layer(x, mask, None if past is None else past[i])
            present.append(kv)
        logits = self.head(self.norm(x)).float()
        prior = F.one_hot(self.bigram[ids], VOCAB)
        return logits + 3.0 * prior, present


def rewind(past, length):
    return [(k[:, :, :length], v[:, :, :length]) for k, v in past]


@torch.inference_mode()
def generate(target, draft, prompt, rounds, k):
    ids = prompt
    _, t_past = target(ids[:, :-1])
    _, d_past = draft(ids[:, :-1])
    accepted, t0 = 0, time.time()
    for r in range(rounds):
        # draft k tokens one at a time (the draft may lag by more than one token)
        cur, proposal = ids[:, d_past[0][0].shape[2] :], []
        for _ in range(k):
            logits, d_past = draft(cur, d_past)
            cur = logits[:, -1:].argmax(-1)
            proposal.append(cur)
        proposal = torch.cat(proposal, dim=1)
        # verify all of them in a single pass of the target
        block = torch.cat([ids[:, -1:], proposal], dim=1)
        logits, t_past = target(block, t_past)
        truth = logits.argmax(-1)
        n_ok = 0
        while n_ok < k and truth[0, n_ok].item() == proposal[0, n_ok].item():
            n_ok += 1
        ids = torch.cat([ids, proposal[:, :n_ok], truth[:, n_ok : n_ok + 1]], dim=1)
        accepted += n_ok
        t_past = rewind(t_past, ids.shape[1] - 1)
        d_past = rewind(d_past, ids.shape[1] - 1)
        if r % 10 == 9 or r == rounds - 1:
            new = ids.shape[1] - prompt.shape[1]
            print(
                f"round {r + 1:3d}: {new} new tokens, acceptance {accepted / (k * (r + 1)):.2f}, "
                f"{new / (time.time() - t0):.1f} tok/s"
            )
    return ids


def build(d, n_layers, heads, bigram, seed):
    torch.manual_seed(seed)
    with torch.device(device):
        model = Decoder(d, n_layers, heads, bigram)
    return model.to(device, dtype).eval().requires_grad_(False)


def main():
    gen = torch.Generator().manual_seed(0)
    table = torch.randint(VOCAB, (VOCAB,), generator=gen)
    if SMOKE:
        target, draft = build(64, 2, 4, table, 1), build(32, 1, 2, table, 2)
        prompt_len, rounds, k = 24, 6, 3
    else:
        target, draft = build(3072, 12, 24, table, 1), build(768, 4, 12, table, 2)
        prompt_len, rounds, k = 768, 60, 5
    target, draft = torch.compile(target), torch.compile(draft)
    prompt = torch.randint(VOCAB, (1, prompt_len), generator=gen).to(device)
    tic = time.time()
    out = generate(target, draft, prompt, rounds, k)
    print(f"done in {time.time() - tic:.1f}s, tail of the text: {out[0, -8:].tolist()}")


if __name__ == "__main__":
    main()
