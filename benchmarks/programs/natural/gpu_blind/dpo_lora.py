"""DPO fine-tuning of a small Llama-like model with LoRA adapters and gradient checkpointing."""

import contextlib
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

SMALL = SCALE < 0.5
HEADS = max(2, int(12 * SCALE))
D = HEADS * 64
LAYERS = max(2, int(12 * SCALE))
VOCAB = max(500, int(32000 * SCALE))
PAIRS = max(2, int(4 * SCALE))
MIN_LEN, MAX_LEN = (96, 384) if not SMALL else (12, 40)
RANK, ALPHA, BETA = 8, 16, 0.1
STEPS = 40 if not SMALL else 6
PAD = 0


class LoRALinear(nn.Module):
    def __init__(self, inp, out):
        super().__init__()
        self.base = nn.Linear(inp, out, bias=False)
        self.base.weight.requires_grad_(False)
        self.lora_a = nn.Linear(inp, RANK, bias=False)
        self.lora_b = nn.Linear(RANK, out, bias=False)
        nn.init.zeros_(self.lora_b.weight)
        self.dropout = nn.Dropout(0.05)
        self.enabled = True

    def forward(self, x):
        y = self.base(x)
        if self.enabled:
            y = y + self.lora_b(self.lora_a(self.dropout(x))) * (ALPHA / RANK)
        return y


def rope(x):
    b, h, t, d = x.shape
    inv = 1.0 / (10000 ** (torch.arange(0, d, 2, device=x.device).float() / d))
    ang = torch.outer(torch.arange(t, device=x.device).float(), inv)
    cos, sin = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    x1, x2 = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.q, self.k, self.v, self.o = (
            LoRALinear(D, D),
            LoRALinear(D, D),
            LoRALinear(D, D),
            LoRALinear(D, D),
        )
        hidden = int(D * 2.75)
        self.gate, self.up = nn.Linear(D, hidden, bias=False), nn.Linear(D, hidden, bias=False)
        self.down = nn.Linear(hidden, D, bias=False)

    def forward(self, x, mask):
        b, t, _ = x.shape
        h = self.n1(x)
        q, k, v = (p(h).view(b, t, HEADS, 64).transpose(1, 2) for p in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(rope(q), rope(k), v, attn_mask=mask)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, D))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class CausalLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, D)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm = nn.RMSNorm(D)
        self.head = nn.Linear(D, VOCAB, bias=False)
        for name, p in self.named_parameters():
            p.requires_grad_("lora" in name)

    @contextlib.contextmanager
    def disable_adapter(self):
        loras = [m for m in self.modules() if isinstance(m, LoRALinear)]
        for m in loras:
            m.enabled = False
        try:
            yield
        finally:
            for m in loras:
                m.enabled = True

    def forward(self, ids, attention_mask):
        t = ids.shape[1]
        causal = torch.ones(t, t, dtype=torch.bool, device=ids.device).tril()
        mask = causal[None, None] & attention_mask[:, None, None, :].bool()
        mask = mask | torch.eye(t, dtype=torch.bool, device=ids.device)
        x = self.embed(ids)
        for block in self.blocks:
            if self.training and torch.is_grad_enabled():
                x = checkpoint(block, x, mask, use_reentrant=False)
            else:
                x = block(x, mask)
        return {"logits": self.head(self.norm(x))}


def sequence_logps(logits, labels):
    logits, labels = logits[:, :-1].float(), labels[:, 1:]
    keep = labels != -100
    safe = labels.masked_fill(~keep, 0)
    logps = torch.gather(logits.log_softmax(-1), 2, safe.unsqueeze(2)).squeeze(2)
    return (logps * keep).sum(-1)


def collate(pairs):
    seqs = [c for p, c, r in pairs] + [r for p, c, r in pairs]
    prompts = [p for p, c, r in pairs] * 2
    longest = max(len(p) + len(s) for p, s in zip(prompts, seqs))
    ids = torch.full((len(seqs), longest), PAD)
    labels = torch.full((len(seqs), longest), -100)
    for i, (p, s) in enumerate(zip(prompts, seqs)):
        n = len(p) + len(s)
        ids[i, :n] = torch.cat([p, s])
        labels[i, len(p) : n] = s
    return {"ids": ids, "labels": labels, "mask": (ids != PAD).long()}


def make_pair():
    total = int(torch.randint(MIN_LEN, MAX_LEN, (1,)))
    n = total // 3
    prompt = torch.randint(1, VOCAB, (n,))
    chosen = torch.randint(1, VOCAB // 2, (total - n,))
    rejected = torch.randint(VOCAB // 2, VOCAB, (int((total - n) * 0.8),))
    return prompt, chosen, rejected


def main():
    torch.manual_seed(0)
    model = CausalLM().to(DEVICE)
    policy = torch.compile(model)
    trainable = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(trainable, lr=2e-4)
    model.train()
    for step in range(STEPS):
        batch = {k: v.to(DEVICE) for k, v in collate([make_pair() for _ in range(PAIRS)]).items()}
        t0 = time.perf_counter()
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            with torch.no_grad(), model.disable_adapter():
                ref = sequence_logps(policy(batch["ids"], batch["mask"])["logits"], batch["labels"])
            pol = sequence_logps(policy(batch["ids"], batch["mask"])["logits"], batch["labels"])
        pc, pr = pol.chunk(2)
        rc, rr = ref.chunk(2)
        margin = BETA * ((pc - rc) - (pr - rr))
        loss = -F.logsigmoid(margin).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trainable, 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        acc = (margin > 0).float().mean().item()
        if step % 5 == 0:
            if DEVICE == "cuda":
                torch.cuda.synchronize()
            print(
                f"step {step} len {batch['ids'].shape[1]} loss {loss.item():.4f} acc {acc:.2f} "
                f"{(time.perf_counter() - t0) * 1e3:.1f} ms"
            )
    print(f"last loss {loss.item():.4f}, reward margin {margin.mean().item():.4f}")


if __name__ == "__main__":
    main()
