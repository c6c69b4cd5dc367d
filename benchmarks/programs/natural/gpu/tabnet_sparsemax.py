"""TabNet-like sequential attention with sparsemax masks."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def sparsemax(z):
    ordered = z.sort(-1, descending=True).values
    k = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
    cum = ordered.cumsum(-1)
    support = (1 + k * ordered > cum).to(z.dtype)
    size = support.sum(-1, keepdim=True)
    tau = (cum.gather(-1, size.long() - 1) - 1) / size
    return (z - tau).clamp(min=0)


class GLUBlock(nn.Module):
    def __init__(self, inp, out):
        super().__init__()
        self.fc, self.bn = nn.Linear(inp, 2 * out, bias=False), nn.BatchNorm1d(2 * out)

    def forward(self, x):
        return F.glu(self.bn(self.fc(x)))


class TabNet(nn.Module):
    def __init__(self, features=128, nd=64, steps=4, classes=8):
        super().__init__()
        self.bn = nn.BatchNorm1d(features)
        self.shared = GLUBlock(features, 2 * nd)
        self.own = nn.ModuleList([GLUBlock(2 * nd, 2 * nd) for _ in range(steps)])
        self.att = nn.ModuleList(
            [
                nn.Sequential(nn.Linear(nd, features, bias=False), nn.BatchNorm1d(features))
                for _ in range(steps)
            ]
        )
        self.out, self.nd = nn.Linear(nd, classes), nd

    def forward(self, x):
        x = self.bn(x)
        prior, total, entropy = torch.ones_like(x), 0.0, 0.0
        a = self.shared(x)[:, self.nd :]
        for own, att in zip(self.own, self.att):
            mask = sparsemax(att(a) * prior)
            entropy = entropy - (mask * (mask + 1e-10).log()).sum(-1).mean()
            prior = prior * (1.5 - mask)
            h = self.shared(mask * x)
            h = (h + own(h)) * 0.5**0.5
            total = total + F.relu(h[:, : self.nd])
            a = h[:, self.nd :]
        return self.out(total), entropy


def build(device, compiled):
    torch.manual_seed(0)
    model = TabNet().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    x = torch.randn(pick(16384, 16), 128, device=device)
    y = torch.randint(8, (x.shape[0],), device=device)

    def step():
        logits, entropy = forward(x)
        loss = F.cross_entropy(logits, y) + 1e-3 * entropy
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
