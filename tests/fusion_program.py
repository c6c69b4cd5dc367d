"""A program that tests share: three missed fusions and a remedy, norms, and a block that is trained."""

PROGRAM = """
import torch
torch.manual_seed(0)

def transposed(x, y):
    a = torch.relu(x + 1)
    return a, a.t().contiguous() * y

def straight(x, y):
    a = torch.relu(x + 1)
    return a, a * y

def reduced(x, y):
    total = x.sum(0)
    return torch.exp(total * y)

def cut(x, w):
    a = torch.relu(x * 2 + 1)
    b = a @ w
    return torch.sigmoid(b) * 3

shapes = {
    "transposed": ((96, 64), (64, 96)), "straight": ((96, 64), (96, 64)),
    "reduced": ((8, 1024), (30, 1024)), "cut": ((64, 64), (64, 64)),
}
for function in (transposed, straight, reduced, cut):
    torch.compile(function)(*(torch.randn(shape) for shape in shapes[function.__name__]))

from torch import nn
from torch.nn import functional as F

def norms(x, w, b):
    y = F.gelu(F.layer_norm(x, (64,), w, b))
    r = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
    return torch.log_softmax(r, -1), x.sum(0)

class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, width)
        self.qkv = nn.Linear(width, 3 * width)
    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.out(torch.softmax(q @ k.transpose(-1, -2), -1) @ v)
        return F.gelu(x)

torch.compile(norms)(torch.ones(32, 64), torch.ones(64), torch.zeros(64))
torch.compile(Block())(torch.ones(2, 8, 16)).sum().backward()
"""
