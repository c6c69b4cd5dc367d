"""Top-p sampling of the next token with a repetition penalty, for a batch of sequences."""

import torch

dev = "cuda"
B, V, T = 64, 128256, 512
logits = torch.randn(B, V, device=dev)
past = torch.randint(0, V, (B, T), device=dev)


def sample(logits, past, temperature: float, p: float, penalty: float):
    seen = logits.gather(1, past)
    seen = torch.where(seen > 0, seen / penalty, seen * penalty)
    logits = logits.scatter(1, past, seen) / temperature
    probs, order = torch.softmax(logits, -1).sort(-1, descending=True)
    keep = probs.cumsum(-1) - probs < p
    probs = probs * keep
    probs = probs / probs.sum(-1, keepdim=True)
    pick = torch.multinomial(probs, 1)
    return order.gather(1, pick)


fast = torch.compile(sample)
with torch.no_grad():
    for _ in range(60):
        t = fast(logits, past, 0.8, 0.9, 1.1)
        past = torch.cat([past[:, 1:], t], 1)
print(t[:4, 0].tolist())
