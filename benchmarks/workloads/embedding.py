"""Training with integer inputs that index: an embedding, a gather and a cross entropy."""

import torch

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
table = torch.nn.Embedding(1000, 64).to(device)
head = torch.nn.Linear(64, 50).to(device)


@torch.compile
def loss_of(tokens, labels, order):
    h = head(table(tokens).mean(1))
    picked = h.gather(1, order)
    return torch.nn.functional.cross_entropy(h, labels) + picked.square().mean()


tokens = torch.randint(0, 1000, (32, 12), device=device)
labels = torch.randint(0, 50, (32,), device=device)
order = torch.randint(0, 50, (32, 4), device=device)
for _ in range(2):
    loss_of(tokens, labels, order).backward()
