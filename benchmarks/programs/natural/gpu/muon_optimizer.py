"""Newton-Schulz orthogonalised momentum over many weight matrices, one compiled update."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def newton_schulz(g, steps=5):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    flip = x.shape[0] > x.shape[1]
    if flip:
        x = x.T
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        m = x @ x.T
        x = a * x + (b * m + c * m @ m) @ x
    return (x.T if flip else x).to(g.dtype)


def muon_update(params, grads, momenta, lr=0.02, beta=0.95, decay=0.01):
    for p, g, m in zip(params, grads, momenta):
        m.mul_(beta).add_(g)
        update = newton_schulz(g + beta * m)
        scale = max(1.0, p.shape[0] / p.shape[1]) ** 0.5
        p.mul_(1 - lr * decay).add_(update, alpha=-lr * scale)


def build(device, compiled):
    torch.manual_seed(0)
    d = pick(1024, 32)
    shapes = [(d, d), (3 * d, d), (4 * d, d), (d, 4 * d)]
    params = [torch.randn(s, device=device) * 0.02 for s in shapes]
    grads = [torch.randn(s, device=device) for s in shapes]
    momenta = [torch.zeros(s, device=device) for s in shapes]
    update = torch.compile(muon_update, backend=BACKEND) if compiled else muon_update

    @torch.no_grad()
    def step():
        update(params, grads, momenta)
        return params[0]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
