"""Dense optical flow by Horn-Schunck relaxation."""

import os

import torch
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def horn_schunck(a, b, alpha=0.5, rounds=10):
    kx = torch.tensor([[-1.0, 1], [-1, 1]], device=a.device)[None, None] / 4
    ky = torch.tensor([[-1.0, -1], [1, 1]], device=a.device)[None, None] / 4
    kt = torch.full((1, 1, 2, 2), 0.25, device=a.device)

    def conv(x, k):
        return F.conv2d(F.pad(x, (0, 1, 0, 1), mode="replicate"), k)

    fx, fy = conv(a, kx) + conv(b, kx), conv(a, ky) + conv(b, ky)
    ft = conv(b, kt) - conv(a, kt)
    avg = torch.tensor([[1.0, 2, 1], [2, 0, 2], [1, 2, 1]], device=a.device)[None, None] / 12
    u = v = torch.zeros_like(a)
    denom = alpha**2 + fx**2 + fy**2
    for _ in range(rounds):
        ub = F.conv2d(F.pad(u, (1, 1, 1, 1), mode="replicate"), avg)
        vb = F.conv2d(F.pad(v, (1, 1, 1, 1), mode="replicate"), avg)
        d = (fx * ub + fy * vb + ft) / denom
        u, v = ub - fx * d, vb - fy * d
    return torch.cat([u, v], 1)


def build(device, compiled):
    torch.manual_seed(0)
    a = F.avg_pool2d(torch.rand(1, 1, pick(244, 20), pick(324, 24), device=device), 5, 1)
    b = a.roll(1, -1)
    run = torch.compile(horn_schunck, backend=BACKEND) if compiled else horn_schunck

    def step():
        return run(a, b)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
