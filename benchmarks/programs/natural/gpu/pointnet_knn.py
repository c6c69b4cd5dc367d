"""Point cloud features by k nearest neighbours (EdgeConv), training forward and backward."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def knn(x, k):
    inner = x @ x.transpose(1, 2)
    sq = (x**2).sum(-1)
    dist = sq[:, :, None] - 2 * inner + sq[:, None, :]
    return dist.topk(k, dim=-1, largest=False).indices


def edge_features(x, idx):
    b, n, k = idx.shape
    neighbours = torch.gather(
        x[:, None].expand(-1, n, -1, -1), 2, idx[..., None].expand(-1, -1, -1, x.shape[-1])
    )
    centre = x[:, :, None].expand_as(neighbours)
    return torch.cat([neighbours - centre, centre], -1)


class EdgeConv(nn.Module):
    def __init__(self, inp, out, k=20):
        super().__init__()
        self.k = k
        self.mlp = nn.Sequential(nn.Linear(2 * inp, out), nn.LayerNorm(out), nn.LeakyReLU(0.2))

    def forward(self, x):
        return self.mlp(edge_features(x, knn(x, self.k))).amax(2)


class DGCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.e1, self.e2 = EdgeConv(3, 32), EdgeConv(32, 64)
        self.head = nn.Sequential(nn.Linear(96, 128), nn.ReLU(), nn.Linear(128, 13))

    def forward(self, points):
        a = self.e1(points)
        b = self.e2(a)
        return self.head(torch.cat([a, b], -1))


def build(device, compiled):
    torch.manual_seed(0)
    model = DGCNN().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forward = torch.compile(model, backend=BACKEND) if compiled else model
    points = torch.randn(pick(8, 2), pick(1024, 48), 3, device=device)
    labels = torch.randint(13, points.shape[:2], device=device)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(points).flatten(0, 1), labels.flatten())
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
