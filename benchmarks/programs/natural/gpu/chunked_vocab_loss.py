"""Large-vocabulary cross entropy in chunks with z-loss and soft capping."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def chunk_loss(hidden, weight, targets, cap=30.0, z=1e-4):
    logits = (hidden @ weight.T).float()
    logits = cap * torch.tanh(logits / cap)
    lse = logits.logsumexp(-1)
    picked = logits.gather(-1, targets[:, None]).squeeze(-1)
    valid = (targets != 0).float()
    return ((lse - picked + z * lse**2) * valid).sum(), valid.sum()


def loss_fn(hidden, weight, targets, chunks=4):
    total, count = 0.0, 0.0
    for h, t in zip(hidden.chunk(chunks), targets.chunk(chunks)):
        a, b = chunk_loss(h, weight, t)
        total, count = total + a, count + b
    return total / count


def build(device, compiled):
    torch.manual_seed(0)
    tokens, dim, vocab = pick(4096, 32), pick(1024, 16), pick(64_000, 100)
    hidden = torch.randn(tokens, dim, device=device, dtype=torch.bfloat16).requires_grad_()
    weight = (torch.randn(vocab, dim, device=device) * 0.02).to(torch.bfloat16).requires_grad_()
    targets = torch.randint(vocab, (tokens,), device=device)
    compute = torch.compile(loss_fn, backend=BACKEND) if compiled else loss_fn

    def step():
        hidden.grad = weight.grad = None
        loss = compute(hidden, weight, targets)
        loss.backward()
        return loss.detach()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
