"""Top-2 mixture of experts with capacity, index dispatch and batched expert products."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class MoE(nn.Module):
    def __init__(self, dim=512, hidden=1024, experts=16, k=2, factor=1.25):
        super().__init__()
        self.k, self.experts, self.factor = k, experts, factor
        self.router = nn.Linear(dim, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, dim, hidden) * dim**-0.5)
        self.w2 = nn.Parameter(torch.randn(experts, hidden, dim) * hidden**-0.5)

    def forward(self, x):
        tokens, dim = x.shape
        capacity = int(self.factor * self.k * tokens / self.experts)
        probs = (
            self.router(x.float()).softmax(-1)
            if x.dtype == torch.float32
            else self.router(x).float().softmax(-1)
        )
        weight, expert = probs.topk(self.k, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        onehot = F.one_hot(expert.T.reshape(-1), self.experts)
        position = (onehot.cumsum(0) * onehot).sum(-1) - 1
        keep = position < capacity
        slot = torch.where(keep, expert.T.reshape(-1) * capacity + position, self.experts * capacity)
        token = torch.arange(tokens, device=x.device).repeat(self.k)
        buffer = x.new_zeros(self.experts * capacity + 1, dim).index_copy(0, slot, x[token])
        h = buffer[:-1].view(self.experts, capacity, dim)
        h = torch.bmm(F.gelu(torch.bmm(h, self.w1)), self.w2).view(-1, dim)
        h = torch.cat([h, h.new_zeros(1, dim)])
        out = torch.zeros_like(x).index_add(0, token, h[slot] * weight.T.reshape(-1, 1).to(x.dtype))
        load = onehot.float().mean(0) * self.experts
        return out, (load * probs.mean(0)).sum()


def build(device, compiled):
    torch.manual_seed(0)
    model = MoE(pick(512, 16), pick(1024, 32)).to(device, torch.bfloat16)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(pick(8192, 64), pick(512, 16), device=device, dtype=torch.bfloat16)

    def step():
        y, aux = forward(x)
        loss = (y.float() ** 2).mean() + 0.01 * aux
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
