"""Multi-tenant text embedding service: one encoder, a LoRA adapter per customer."""

import os
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1"))


class LoraLinear(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.base = nn.Linear(in_features, out_features)
        self.lora_A = nn.ModuleDict()
        self.lora_B = nn.ModuleDict()
        self.scaling = {}
        self.active_adapter = None

    def add_adapter(self, name, r, alpha):
        self.lora_A[name] = nn.Linear(self.base.in_features, r, bias=False)
        self.lora_B[name] = nn.Linear(r, self.base.out_features, bias=False)
        nn.init.normal_(self.lora_B[name].weight, std=0.02)
        self.scaling[name] = alpha / r

    def forward(self, x):
        out = self.base(x)
        name = self.active_adapter
        if name is not None:
            out = out + self.lora_B[name](self.lora_A[name](x)) * self.scaling[name]
        return out


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.q_proj = LoraLinear(dim, dim)
        self.k_proj = LoraLinear(dim, dim)
        self.v_proj = LoraLinear(dim, dim)
        self.o_proj = LoraLinear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x, mask):
        b, s, d = x.shape
        h = self.norm1(x)
        q = self.q_proj(h).view(b, s, self.heads, -1).transpose(1, 2)
        k = self.k_proj(h).view(b, s, self.heads, -1).transpose(1, 2)
        v = self.v_proj(h).view(b, s, self.heads, -1).transpose(1, 2)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.o_proj(a.transpose(1, 2).reshape(b, s, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Encoder(nn.Module):
    def __init__(self, vocab, dim, depth, heads, max_len):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def add_adapter(self, name, r, alpha):
        for module in self.modules():
            if isinstance(module, LoraLinear):
                module.add_adapter(name, r, alpha)

    def set_adapter(self, name):
        for module in self.modules():
            if isinstance(module, LoraLinear):
                module.active_adapter = name

    def forward(self, ids, lengths):
        s = ids.shape[1]
        positions = torch.arange(s, device=ids.device)
        valid = positions[None] < lengths[:, None]
        x = self.tok(ids) + self.pos(positions)
        mask = valid[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        x = self.norm(x).masked_fill(~valid[..., None], 0)
        pooled = x.float().sum(1) / lengths[:, None]
        return F.normalize(pooled, dim=-1)


def main():
    torch.manual_seed(0)
    random.seed(0)
    small = SCALE < 1
    vocab, dim, depth, heads, seq = (1000, 64, 2, 4, 32) if small else (30522, 1024, 6, 16, 256)
    batch = max(2, int(32 * SCALE))
    iters = 12 if small else 60
    dtype = torch.float32 if DEVICE == "cpu" else torch.bfloat16

    model = Encoder(vocab, dim, depth, heads, seq)
    tenants = [f"tenant_{i:02d}" for i in range(12)]
    for i, name in enumerate(tenants):
        r = (8, 16, 32)[i % 3]
        model.add_adapter(name, r=r, alpha=2 * r)
    model = model.to(DEVICE, dtype).eval()
    encode = torch.compile(model)

    def request():
        ids = torch.randint(0, vocab, (batch, seq), device=DEVICE)
        lengths = torch.randint(seq // 4, seq + 1, (batch,), device=DEVICE)
        return ids, lengths

    def serve(name, ids, lengths):
        model.set_adapter(name)
        return encode(ids, lengths)

    with torch.no_grad():
        for name in tenants * 2:
            serve(name, *request())
        queue = [(tenants[i % len(tenants)], *request()) for i in range(iters)]
        random.shuffle(queue)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        checksum = torch.zeros((), device=DEVICE)
        for name, ids, lengths in queue:
            emb = serve(name, ids, lengths)
            checksum += (emb @ emb.T).mean()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        elapsed = time.perf_counter() - start

    print(f"requests {iters}  mean similarity {checksum.item() / iters:.5f}")
    print(f"{1000 * elapsed / iters:.2f} ms/request  {batch * iters / elapsed:.0f} texts/s")


if __name__ == "__main__":
    main()
