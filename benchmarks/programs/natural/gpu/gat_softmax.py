"""Graph attention with a softmax over each node's incoming edges."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def edge_softmax(scores, dst, nodes):
    index = dst[:, None].expand_as(scores)
    top = torch.full((nodes, scores.shape[1]), float("-inf"), device=scores.device).scatter_reduce(
        0, index, scores, "amax"
    )
    e = (scores - top[dst]).exp()
    total = torch.zeros(nodes, scores.shape[1], device=scores.device).scatter_add(0, index, e)
    return e / (total[dst] + 1e-16)


class GATLayer(nn.Module):
    def __init__(self, inp, out, heads):
        super().__init__()
        self.heads, self.out = heads, out
        self.lin = nn.Linear(inp, heads * out, bias=False)
        self.att_src = nn.Parameter(torch.randn(heads, out) * 0.1)
        self.att_dst = nn.Parameter(torch.randn(heads, out) * 0.1)

    def forward(self, x, src, dst):
        n = x.shape[0]
        h = self.lin(x).view(n, self.heads, self.out)
        a_src, a_dst = (h * self.att_src).sum(-1), (h * self.att_dst).sum(-1)
        alpha = edge_softmax(F.leaky_relu(a_src[src] + a_dst[dst], 0.2), dst, n)
        messages = h[src] * alpha[..., None]
        out = torch.zeros_like(h).scatter_add_(0, dst[:, None, None].expand_as(messages), messages)
        return out.flatten(1)


class GAT(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = GATLayer(64, 16, 8), GATLayer(128, 16, 4)

    def forward(self, x, src, dst):
        return self.l2(F.elu(self.l1(x, src, dst)), src, dst)


def build(device, compiled):
    torch.manual_seed(0)
    nodes, edges = pick(20_000, 200), pick(300_000, 1000)
    model = GAT().to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    x = torch.randn(nodes, 64, device=device)
    src = torch.randint(nodes, (edges,), device=device)
    dst = torch.randint(nodes, (edges,), device=device).sort().values

    @torch.no_grad()
    def step():
        return model(x, src, dst)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
