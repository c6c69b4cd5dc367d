"""Sampling continuations of symbolic music (event tokens) for a small batch of
requests, with a static key/value cache and bfloat16 autocast."""

import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class EventLMConfig:
    vocab: int = 1536
    dim: int = 640
    heads: int = 10
    layers: int = 6
    max_len: int = 256


@dataclass
class Request:
    name: str
    prompt: torch.Tensor
    temperature: float


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.heads
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim, bias=False)
        self.proj = nn.Linear(cfg.dim, cfg.dim, bias=False)

    def forward(self, x, cache, pos, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        k_cache, v_cache = cache
        k_cache.index_copy_(2, pos, k.to(k_cache.dtype))
        v_cache.index_copy_(2, pos, v.to(v_cache.dtype))
        y = F.scaled_dot_product_attention(q, k_cache, v_cache, attn_mask=mask)
        return self.proj(y.transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(cfg.dim, eps=1e-5), nn.RMSNorm(cfg.dim, eps=1e-5)
        self.attn = Attention(cfg)
        self.fc = nn.Linear(cfg.dim, 4 * cfg.dim)
        self.out = nn.Linear(4 * cfg.dim, cfg.dim)

    def forward(self, x, cache, pos, mask):
        x = x + self.attn(self.n1(x), cache, pos, mask)
        return x + self.out(F.gelu(self.fc(self.n2(x))))


class EventLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Embedding(cfg.max_len, cfg.dim)
        self.layers = nn.ModuleList([Layer(cfg) for _ in range(cfg.layers)])
        self.norm = nn.RMSNorm(cfg.dim, eps=1e-5)
        self.head = nn.Linear(cfg.dim, cfg.vocab, bias=False)

    def new_cache(self, batch):
        shape = (batch, self.cfg.heads, self.cfg.max_len, self.cfg.dim // self.cfg.heads)
        return [
            (torch.zeros(shape, dtype=torch.bfloat16), torch.zeros(shape, dtype=torch.bfloat16))
            for _ in range(self.cfg.layers)
        ]

    def forward(self, tokens, pos, caches):
        x = self.tok(tokens) + self.pos(pos)
        mask = torch.arange(self.cfg.max_len)[None, :] <= pos[:, None]
        for layer, cache in zip(self.layers, caches):
            x = layer(x, cache, pos, mask)
        return self.head(self.norm(x[:, -1]))


def sample(logits, temps, top_k, gen):
    logits = logits.float() / temps[:, None]
    kth = logits.topk(top_k, dim=-1).values[:, -1:]
    probs = logits.masked_fill(logits < kth, float("-inf")).softmax(-1)
    return torch.multinomial(probs, 1, generator=gen)


@torch.no_grad()
def continue_pieces(model, decode, requests, n_new, gen):
    prompts = torch.stack([r.prompt for r in requests])
    temps = torch.tensor([r.temperature for r in requests])
    caches = model.new_cache(len(requests))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        p = prompts.shape[1]
        logits = model(prompts, torch.arange(p), caches)
        out = [sample(logits, temps, 32, gen)]
        for i in range(n_new - 1):
            logits = decode(out[-1], torch.tensor([p + i]), caches)
            out.append(sample(logits, temps, 32, gen))
    return torch.cat(out, 1)


def main():
    torch.manual_seed(11)
    torch.set_num_threads(2)
    cfg = EventLMConfig()
    model = EventLM(cfg).eval()
    decode = torch.compile(model, dynamic=False)
    gen = torch.Generator().manual_seed(3)

    total = 0
    for batch_no, prompt_len in enumerate([24, 40, 64]):
        requests = [
            Request(
                f"piece-{batch_no}-{i}",
                torch.randint(0, cfg.vocab, (prompt_len,), generator=gen),
                0.8 + 0.1 * i,
            )
            for i in range(4)
        ]
        t0 = time.perf_counter()
        tokens = continue_pieces(model, decode, requests, 40, gen)
        dt = time.perf_counter() - t0
        total += tokens.numel()
        print(
            f"batch {batch_no}: prompt {prompt_len}, {tokens.numel() / dt:.1f} events/s, "
            f"{dt / tokens.shape[1] * 1e3:.1f} ms/step"
        )
    print("events sampled:", total)


if __name__ == "__main__":
    main()
