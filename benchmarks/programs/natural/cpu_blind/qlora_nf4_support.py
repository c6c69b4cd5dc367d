"""Fine-tune a small causal LM on support macros with a frozen 4-bit (NF4) base and LoRA adapters.

The base weights live as packed nibbles with block-wise absmax scales; the scales themselves are
kept in int8 ("double quantisation").  Only the adapters, the norms and the output head learn.
"""

import argparse
import logging
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

log = logging.getLogger("qlora")

NF4 = torch.tensor(
    [
        -1.0,
        -0.6961928009986877,
        -0.5250730514526367,
        -0.39491748809814453,
        -0.28444138169288635,
        -0.18477343022823334,
        -0.09105003625154495,
        0.0,
        0.07958029955625534,
        0.16093020141124725,
        0.24611230194568634,
        0.33791524171829224,
        0.44070982933044434,
        0.5626170039176941,
        0.7229568362236023,
        1.0,
    ]
)


def quantize_nf4(w, block=64):
    flat = w.reshape(-1, block)
    absmax = flat.abs().amax(1, keepdim=True).clamp(min=1e-8)
    idx = ((flat / absmax)[..., None] - NF4).abs().argmin(-1).to(torch.uint8).reshape(-1)
    packed = (idx[0::2] << 4) | idx[1::2]
    offset = absmax.mean()
    centred = (absmax - offset).reshape(-1)
    scale2 = centred.abs().max() / 127
    q_absmax = (centred / scale2).round().to(torch.int8)
    return packed, q_absmax, scale2, offset


class NF4Linear(nn.Module):
    def __init__(self, weight, rank, alpha, block=64, dropout=0.05):
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.block = block
        packed, q_absmax, scale2, offset = quantize_nf4(weight, block)
        self.register_buffer("packed", packed)
        self.register_buffer("q_absmax", q_absmax)
        self.register_buffer("scale2", scale2)
        self.register_buffer("offset", offset)
        self.register_buffer("code", NF4.clone())
        self.lora_a = nn.Parameter(torch.randn(rank, self.in_features) / math.sqrt(self.in_features))
        self.lora_b = nn.Parameter(torch.zeros(self.out_features, rank))
        self.scaling = alpha / rank
        self.drop = nn.Dropout(dropout)

    def dequantize(self):
        hi = (self.packed >> 4).long()
        lo = (self.packed & 0x0F).long()
        vals = self.code[torch.stack([hi, lo], -1)].reshape(-1, self.block)
        absmax = self.q_absmax.float() * self.scale2 + self.offset
        return (vals * absmax[:, None]).reshape(self.out_features, self.in_features)

    def forward(self, x):
        base = F.linear(x, self.dequantize())
        return base + self.scaling * F.linear(F.linear(self.drop(x), self.lora_a), self.lora_b)


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.g = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.g


class Layer(nn.Module):
    def __init__(self, d, heads, rank):
        super().__init__()
        mk = lambda o, i: NF4Linear(torch.randn(o, i) / math.sqrt(i), rank, 2 * rank)
        self.heads = heads
        self.n1, self.n2 = RMSNorm(d), RMSNorm(d)
        self.qkv, self.proj = mk(3 * d, d), mk(d, d)
        self.gate, self.up, self.down = mk(2 * d, d), mk(2 * d, d), mk(d, 2 * d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class SupportLM(nn.Module):
    def __init__(self, vocab, d, n_layers, heads, rank, max_len):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(max_len, d)
        self.tok.weight.requires_grad_(False)
        self.pos.weight.requires_grad_(False)
        self.layers = nn.ModuleList(Layer(d, heads, rank) for _ in range(n_layers))
        self.norm = RMSNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)
        nn.init.normal_(self.head.weight, std=0.02)

    def forward(self, ids, weight):
        x = self.tok(ids[:, :-1]) + self.pos(torch.arange(ids.shape[1] - 1, device=ids.device))
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        ce = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        w = weight[:, 1:].flatten()
        return (ce * w).sum() / w.sum()


class MacroCorpus:
    """Customer message followed by a templated answer that repeats some slots of the message."""

    def __init__(self, vocab, length, n_templates=12, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        self.vocab, self.length = vocab, length
        self.templates = torch.randint(64, vocab, (n_templates, length // 2), generator=self.g)
        self.slots = torch.rand(n_templates, length // 2, generator=self.g) < 0.15

    def batch(self, n):
        half = self.length // 2
        which = torch.randint(0, len(self.templates), (n,), generator=self.g)
        msg = torch.randint(64, self.vocab, (n, half), generator=self.g)
        msg[:, 0] = which
        ans = torch.where(self.slots[which], msg, self.templates[which])
        weight = torch.cat([torch.zeros(n, half), torch.ones(n, half)], 1)
        return torch.cat([msg, ans], 1), weight


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=18)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--length", type=int, default=96)
    ap.add_argument("--rank", type=int, default=8)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    torch.manual_seed(3)

    vocab = 1024
    model = SupportLM(vocab, 256, 4, 4, args.rank, args.length)
    trainable = [p for p in model.parameters() if p.requires_grad]
    packed = sum(b.numel() for n, b in model.named_buffers() if n.endswith("packed"))
    log.info(
        "base %.2f MiB packed, %d trainable parameters", packed / 2**20, sum(p.numel() for p in trainable)
    )

    data = MacroCorpus(vocab, args.length)
    opt = torch.optim.AdamW(trainable, lr=args.lr, weight_decay=0.0)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.steps)
    net = torch.compile(model)

    seen, t0 = 0, time.time()
    first = None
    for step in range(args.steps):
        ids, weight = data.batch(args.batch)
        loss = net(ids, weight)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trainable, 1.0)
        opt.step()
        sched.step()
        seen += ids.numel()
        if step % 4 == 0 or step == args.steps - 1:
            val = loss.item()
            first = val if first is None else first
            log.info("step %3d loss %.4f  %.0f tok/s", step, val, seen / (time.time() - t0))

    model.eval()
    with torch.no_grad():
        losses = [net(*data.batch(args.batch)).item() for _ in range(4)]
    held = sum(losses) / len(losses)
    log.info("held-out loss %.4f (start %.4f), perplexity %.1f", held, first, math.exp(held))


if __name__ == "__main__":
    main()
