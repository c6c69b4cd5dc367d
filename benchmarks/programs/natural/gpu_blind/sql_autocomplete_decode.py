"""Batched SQL completion with a decoder-only transformer, a fixed key/value cache and top-k sampling."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEVICE = "cpu" if SMOKE else "cuda"
DTYPE = torch.float32 if SMOKE else torch.bfloat16
VOCAB = 128 if SMOKE else 32000
DIM = 64 if SMOKE else 2048
HEADS = 4 if SMOKE else 16
KV_HEADS = 2 if SMOKE else 4
LAYERS = 2 if SMOKE else 12
MAX_LEN = 48 if SMOKE else 1024
BATCH = 2 if SMOKE else 32
NEW_TOKENS = 8 if SMOKE else 300


class KVCache(nn.Module):
    def __init__(self, batch, heads, length, head_dim):
        super().__init__()
        shape = (batch, heads, length, head_dim)
        self.register_buffer("k", torch.zeros(shape, dtype=DTYPE), persistent=False)
        self.register_buffer("v", torch.zeros(shape, dtype=DTYPE), persistent=False)

    def update(self, pos, k, v):
        self.k[:, :, pos] = k
        self.v[:, :, pos] = v
        return self.k, self.v


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.head_dim = DIM // HEADS
        self.wq = nn.Linear(DIM, DIM, bias=False)
        self.wk = nn.Linear(DIM, KV_HEADS * self.head_dim, bias=False)
        self.wv = nn.Linear(DIM, KV_HEADS * self.head_dim, bias=False)
        self.wo = nn.Linear(DIM, DIM, bias=False)
        self.cache = KVCache(BATCH, KV_HEADS, MAX_LEN, self.head_dim)

    def forward(self, x, rope, mask, pos):
        b, t, _ = x.shape
        q = self.apply_rope(self.wq(x).view(b, t, HEADS, -1), rope).transpose(1, 2)
        k = self.apply_rope(self.wk(x).view(b, t, KV_HEADS, -1), rope).transpose(1, 2)
        v = self.wv(x).view(b, t, KV_HEADS, -1).transpose(1, 2)
        k, v = self.cache.update(pos, k, v)
        k = k.repeat_interleave(HEADS // KV_HEADS, dim=1)
        v = v.repeat_interleave(HEADS // KV_HEADS, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(y.transpose(1, 2).reshape(b, t, DIM))

    @staticmethod
    def apply_rope(x, rope):
        even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
        cos, sin = rope[None, :, None, :, 0], rope[None, :, None, :, 1]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2).type_as(x)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = Attention()
        self.norm1 = nn.RMSNorm(DIM)
        self.norm2 = nn.RMSNorm(DIM)
        self.w1 = nn.Linear(DIM, 3 * DIM, bias=False)
        self.w3 = nn.Linear(DIM, 3 * DIM, bias=False)
        self.w2 = nn.Linear(3 * DIM, DIM, bias=False)

    def forward(self, x, rope, mask, pos):
        x = x + self.attn(self.norm1(x), rope, mask, pos)
        h = self.norm2(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class SqlDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)
        self.head.weight = self.embed.weight
        half = DIM // HEADS // 2
        angle = torch.outer(torch.arange(MAX_LEN).float(), 500000.0 ** (-torch.arange(half) / half))
        self.register_buffer("rope", torch.stack([angle.cos(), angle.sin()], -1), persistent=False)
        self.register_buffer("causal", torch.ones(MAX_LEN, MAX_LEN).tril().bool(), persistent=False)

    def forward(self, tokens, pos):
        rope, mask = self.rope[pos], self.causal[pos][None, None]
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, rope, mask, pos)
        return self.head(self.norm(x[:, -1]))


def sample(logits, temperature=0.7, k=40):
    values, indices = torch.topk(logits.float() / temperature, k, dim=-1)
    probs = values.softmax(-1)
    noise = torch.empty_like(probs).exponential_(1)
    choice = (probs / noise).argmax(-1, keepdim=True)
    return indices.gather(-1, choice)


def prefill(model, tokens, pos):
    return sample(model(tokens, pos))


def decode_one(model, token, pos):
    return sample(model(token, pos))


decode_one = torch.compile(decode_one, mode="reduce-overhead", fullgraph=True)


@torch.no_grad()
def complete(model, prompt):
    length = prompt.shape[1]
    token = prefill(model, prompt, torch.arange(length, device=DEVICE))
    pos = torch.tensor([length], device=DEVICE)
    produced = [token]
    for _ in range(NEW_TOKENS - 1):
        token = decode_one(model, token, pos).clone()
        produced.append(token)
        pos += 1
    return torch.cat(produced, dim=1)


def main():
    torch.manual_seed(5)
    with torch.device(DEVICE):
        model = SqlDecoder().eval()
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    rope = model.rope
    model = model.to(DTYPE)
    model.rope = rope.float()
    lengths = [12, 20, 16] if SMOKE else [180, 64, 512, 233]
    for request, length in enumerate(lengths):
        prompt = torch.randint(0, VOCAB, (BATCH, length), device=DEVICE)
        start = time.time()
        out = complete(model, prompt)
        checksum = out.sum().item()
        rate = out.numel() / (time.time() - start)
        print(f"request {request}: prompt {length}, {rate:.0f} tokens/s, checksum {checksum}")


if __name__ == "__main__":
    main()
