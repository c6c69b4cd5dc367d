"""LAMB with per-layer trust ratios, global norm clipping and an EMA copy."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def lamb_step(params, grads, m, v, ema, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, wd=0.01):
    total = torch.sqrt(sum((g.float() ** 2).sum() for g in grads))
    clip = (1.0 / (total + 1e-6)).clamp(max=1.0)
    bias1, bias2 = 1 - beta1**t, 1 - beta2**t
    for p, g, a, b, e in zip(params, grads, m, v, ema):
        g = g.float() * clip
        a.lerp_(g, 1 - beta1)
        b.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        update = (a / bias1) / ((b / bias2).sqrt() + eps) + wd * p
        wn, un = p.norm(), update.norm()
        trust = torch.where((wn > 0) & (un > 0), wn / un, torch.ones_like(wn)).clamp(max=10.0)
        p.sub_(lr * trust * update)
        e.lerp_(p, 0.001)
    return total


def build(device, compiled):
    torch.manual_seed(0)
    d = pick(768, 16)
    shapes = []
    for _ in range(6):
        shapes += [(3 * d, d), (3 * d,), (d, d), (d,), (4 * d, d), (4 * d,), (d, 4 * d), (d,)]
    params = [torch.randn(s, device=device) * 0.02 for s in shapes]
    grads = [torch.randn(s, device=device).bfloat16() for s in shapes]
    m, v, ema = ([torch.zeros(s, device=device) for s in shapes] for _ in range(3))
    t, lr = torch.tensor(1.0, device=device), torch.tensor(1e-3, device=device)
    update = torch.compile(lamb_step, backend=BACKEND) if compiled else lamb_step

    @torch.no_grad()
    def step():
        norm = update(params, grads, m, v, ema, t, lr)
        t.add_(1)
        return norm

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
