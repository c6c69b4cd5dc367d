"""Code-completion server: a decoder with multi-head latent attention (compressed KV cache) and
slot-based continuous batching. A slot first consumes its prompt token by token, then generates."""

import random
import time
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F

device = "cuda"
dtype = torch.bfloat16
SLOTS, MAX_LEN, N_REQUESTS = 32, 1024, 64
LAYERS, DIM, HEADS, VOCAB = 16, 2048, 16, 32000
NOPE, ROPE, LATENT, FFN = 128, 64, 512, 5632
PROMPT, NEW_TOKENS = (60, 220), (60, 160)


def rms_norm(x, w, eps=1e-6):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * w


def rotate(x, cos, sin):
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).to(x.dtype)


class LatentAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIM, HEADS * (NOPE + ROPE), bias=False)
        self.kv_down = nn.Linear(DIM, LATENT + ROPE, bias=False)
        self.kv_norm = nn.Parameter(torch.ones(LATENT))
        self.k_up = nn.Parameter(torch.randn(HEADS, NOPE, LATENT) * 0.02)
        self.v_up = nn.Parameter(torch.randn(HEADS, LATENT, NOPE) * 0.02)
        self.out = nn.Linear(HEADS * NOPE, DIM, bias=False)
        self.scale = (NOPE + ROPE) ** -0.5

    def forward(self, x, cache, pos, cos, sin, mask):
        b = x.size(0)
        q_nope, q_rope = self.q(x).view(b, HEADS, NOPE + ROPE).split([NOPE, ROPE], dim=-1)
        q_rope = rotate(q_rope, cos[:, None], sin[:, None])
        latent, k_rope = self.kv_down(x).split([LATENT, ROPE], dim=-1)
        latent = rms_norm(latent, self.kv_norm)
        cache[torch.arange(b, device=x.device), pos] = torch.cat([latent, rotate(k_rope, cos, sin)], dim=-1)
        # the up-projection of the keys is absorbed into the query, that of the values into the output
        q_latent = torch.einsum("bhn,hnl->bhl", q_nope, self.k_up)
        q_full = torch.cat([q_latent, q_rope], dim=-1)
        scores = torch.einsum("bhc,bsc->bhs", q_full, cache) * self.scale
        probs = scores.float().masked_fill(~mask[:, None], float("-inf")).softmax(-1).to(x.dtype)
        mixed = torch.einsum("bhs,bsl->bhl", probs, cache[..., :LATENT])
        return self.out(torch.einsum("bhl,hln->bhn", mixed, self.v_up).reshape(b, -1))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.Parameter(torch.ones(DIM)), nn.Parameter(torch.ones(DIM))
        self.attn = LatentAttention()
        self.gate, self.up = nn.Linear(DIM, FFN, bias=False), nn.Linear(DIM, FFN, bias=False)
        self.down = nn.Linear(FFN, DIM, bias=False)

    def forward(self, x, *args):
        x = x + self.attn(rms_norm(x, self.norm1), *args)
        h = rms_norm(x, self.norm2)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class CodeModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.Parameter(torch.ones(DIM))
        self.head = nn.Linear(DIM, VOCAB, bias=False)
        inv = 1.0 / 10000 ** (torch.arange(0, ROPE, 2).float() / ROPE)
        self.register_buffer("inv_freq", inv, persistent=False)

    def forward(self, tokens, pos, caches):
        angle = pos[:, None].float() * self.inv_freq.float()
        cos, sin = angle.cos(), angle.sin()
        mask = torch.arange(MAX_LEN, device=tokens.device)[None] <= pos[:, None]
        x = self.embed(tokens)
        for block, cache in zip(self.blocks, caches):
            x = block(x, cache, pos, cos, sin, mask)
        return self.head(rms_norm(x, self.norm)).float()


def sample(logits, temperature=0.8, top_k=40):
    values, index = logits.topk(top_k, dim=-1)
    choice = torch.multinomial((values / temperature).softmax(-1), 1)
    return index.gather(-1, choice).squeeze(-1)


class Request:
    def __init__(self, uid, prompt, n_new):
        self.uid, self.prompt, self.n_new = uid, prompt, n_new
        self.fed, self.output = 0, []

    def next_token(self):
        return self.prompt[self.fed] if self.fed < len(self.prompt) else self.output[-1]


class Engine:
    def __init__(self, model):
        self.caches = [
            torch.zeros(SLOTS, MAX_LEN, LATENT + ROPE, device=device, dtype=dtype) for _ in range(LAYERS)
        ]
        self.forward = torch.compile(model, mode="reduce-overhead")
        self.slots = [None] * SLOTS
        self.queue, self.finished, self.steps = deque(), [], 0

    def step(self):
        for i in range(SLOTS):
            if self.slots[i] is None and self.queue:
                self.slots[i] = self.queue.popleft()
        tokens = torch.tensor([r.next_token() if r else 0 for r in self.slots], device=device)
        pos = torch.tensor([r.fed if r else 0 for r in self.slots], device=device)
        chosen = sample(self.forward(tokens, pos, self.caches)).tolist()
        for i, r in enumerate(self.slots):
            if r is None:
                continue
            r.fed += 1
            if r.fed >= len(r.prompt):
                r.output.append(chosen[i])
                if len(r.output) == r.n_new:
                    self.finished.append(r)
                    self.slots[i] = None
        self.steps += 1

    @torch.inference_mode()
    def run(self):
        while self.queue or any(self.slots):
            self.step()


def main():
    torch.manual_seed(0)
    rng = random.Random(0)
    with torch.device(device):
        model = CodeModel().to(dtype).eval()
    engine = Engine(model)
    for uid in range(N_REQUESTS):
        prompt = [rng.randrange(VOCAB) for _ in range(rng.randint(*PROMPT))]
        engine.queue.append(Request(uid, prompt, rng.randint(*NEW_TOKENS)))
    start = time.perf_counter()
    engine.run()
    seconds = time.perf_counter() - start
    n_out = sum(len(r.output) for r in engine.finished)
    print(
        f"{len(engine.finished)} requests, {engine.steps} steps, {n_out} new tokens, {n_out / seconds:.0f} tokens/s"
    )
    print("first completion", engine.finished[0].output[:8])


if __name__ == "__main__":
    main()
