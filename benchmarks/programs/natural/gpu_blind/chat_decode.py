"""Token-by-token generation with a small bf16 transformer and a KV cache."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

LAYERS = 8
HEADS = 16
DIM = max(256, int(1024 * SCALE) // 128 * 128)
VOCAB = max(1000, int(32000 * SCALE))
BATCH = 8
PROMPT = 400
NEW = 66
MAX_LEN = 1024


def rope(x, cos, sin):
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).type_as(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1 = nn.RMSNorm(DIM)
        self.n2 = nn.RMSNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.proj = nn.Linear(DIM, DIM, bias=False)
        self.gate_up = nn.Linear(DIM, 8 * DIM // 3 // 64 * 128, bias=False)
        self.down = nn.Linear(8 * DIM // 3 // 64 * 64, DIM, bias=False)
        shape = (BATCH, HEADS, MAX_LEN, DIM // HEADS)
        self.register_buffer("k_cache", torch.zeros(shape))
        self.register_buffer("v_cache", torch.zeros(shape))

    def forward(self, x, pos, cos, sin):
        b, s, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, s, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        self.k_cache[:, :, pos : pos + s] = k
        self.v_cache[:, :, pos : pos + s] = v
        keys, vals = self.k_cache[:, :, : pos + s], self.v_cache[:, :, : pos + s]
        o = F.scaled_dot_product_attention(q, keys, vals, is_causal=s > 1)
        x = x + self.proj(o.transpose(1, 2).reshape(b, s, DIM))
        g, u = self.gate_up(self.n2(x)).chunk(2, -1)
        return x + self.down(F.silu(g) * u)


class ChatModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm = nn.RMSNorm(DIM)
        hd = DIM // HEADS
        freq = 10000 ** (-torch.arange(0, hd, 2).float() / hd)
        # plain attribute, so that the angles stay in float32
        self.angles = (torch.arange(MAX_LEN).float()[:, None] * freq).to(device)

    def forward(self, tokens, pos):
        ang = self.angles[pos : pos + tokens.shape[1]]
        cos, sin = ang.cos(), ang.sin()
        x = self.emb(tokens)
        for blk in self.blocks:
            x = blk(x, pos, cos, sin)
        return F.linear(self.norm(x[:, -1]), self.emb.weight)


def sample(logits, temperature=0.8, k=50):
    top, idx = (logits.float() / temperature).topk(k, dim=-1)
    choice = torch.multinomial(torch.softmax(top, -1), 1)
    return idx.gather(1, choice)


@torch.inference_mode()
def main():
    torch.manual_seed(6)
    model = ChatModel().to(device, torch.bfloat16).eval()
    prompt = torch.randint(0, VOCAB, (BATCH, PROMPT), device=device)
    tok = sample(model(prompt, 0))
    model.compile()
    out, t0 = [tok], 0.0
    for i in range(NEW):
        if i == 6:
            torch.stack(out).sum().item()
            t0 = time.perf_counter()
        tok = sample(model(tok, PROMPT + i))
        out.append(tok)
    checksum = torch.cat(out, 1).sum().item()
    dt = (time.perf_counter() - t0) / (NEW - 6)
    print(f"checksum {checksum}, {dt * 1e3:.3f} ms per token, {BATCH / dt:.0f} tokens/s")


if __name__ == "__main__":
    main()
