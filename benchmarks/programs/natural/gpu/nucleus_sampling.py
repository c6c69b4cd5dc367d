"""Repetition penalty, temperature, top-k and top-p filtering, then multinomial."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def sample(logits, previous, temperature=0.8, k=50, p=0.95, penalty=1.2):
    seen = torch.gather(logits, 1, previous)
    seen = torch.where(seen > 0, seen / penalty, seen * penalty)
    logits = logits.scatter(1, previous, seen) / temperature
    kth = logits.topk(k, dim=-1).values[:, -1:]
    logits = logits.masked_fill(logits < kth, float("-inf"))
    ordered, index = logits.sort(dim=-1, descending=True)
    cumulative = ordered.softmax(-1).cumsum(-1)
    remove = cumulative > p
    remove[:, 1:] = remove[:, :-1].clone()
    remove[:, 0] = False
    logits = logits.masked_fill(remove.scatter(1, index, remove), float("-inf"))
    probs = logits.softmax(-1)
    token = torch.multinomial(probs, 1)
    return token, torch.gather(probs.clamp(min=1e-20).log(), 1, token)


def build(device, compiled):
    torch.manual_seed(0)
    batch, vocab = pick(64, 2), pick(128_256, 300)
    logits = torch.randn(batch, vocab, device=device) * 3
    previous = torch.randint(vocab, (batch, 256), device=device)
    run = torch.compile(sample, backend=BACKEND) if compiled else sample

    @torch.no_grad()
    def step():
        return run(logits, previous)[1]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
