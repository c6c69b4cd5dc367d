"""Contrastive pair loss with momentum queue and hard negative weighting."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def info_nce(q, k, queue, temperature=0.1, beta=0.5):
    q, k = F.normalize(q, dim=1), F.normalize(k, dim=1)
    pos = (q * k).sum(1, keepdim=True)
    neg = q @ queue
    weight = torch.softmax(beta * neg.detach(), 1) * neg.shape[1]
    logits = torch.cat([pos, neg + weight.log()], 1) / temperature
    return F.cross_entropy(logits, torch.zeros(q.shape[0], dtype=torch.long, device=q.device))


def train_step(encoder, momentum_encoder, a, b, queue, pointer):
    q = encoder(a)
    with torch.no_grad():
        for p, m in zip(encoder.parameters(), momentum_encoder.parameters()):
            m.lerp_(p, 0.01)
        k = momentum_encoder(b)
    loss = info_nce(q, k, queue.clone())
    with torch.no_grad():
        index = (pointer + torch.arange(k.shape[0], device=k.device)) % queue.shape[1]
        queue[:, index] = F.normalize(k, dim=1).T
        pointer.add_(k.shape[0]).remainder_(queue.shape[1])
    return loss


def encoder_net():
    return nn.Sequential(nn.Linear(1024, 1024), nn.BatchNorm1d(1024), nn.ReLU(), nn.Linear(1024, 128))


def build(device, compiled):
    torch.manual_seed(0)
    enc, mom = encoder_net().to(device), encoder_net().to(device)
    mom.requires_grad_(False)
    optimizer = torch.optim.SGD(enc.parameters(), lr=0.03)
    n, size = pick(1024, 8), pick(65536, 64)
    queue = F.normalize(torch.randn(128, size, device=device), dim=0)
    pointer = torch.zeros((), dtype=torch.long, device=device)
    a, b = torch.randn(2, n, 1024, device=device)
    run = torch.compile(train_step, backend=BACKEND) if compiled else train_step

    def step():
        loss = run(enc, mom, a, b, queue, pointer)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
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
