"""Lloyd's k-means on image-like patches until the assignments stop changing."""

import torch


def assign(x, c):
    d = (x**2).sum(1, keepdim=True) - 2 * x @ c.T + (c**2).sum(1)
    return d.argmin(1)


def update(x, a, k):
    one_hot = torch.nn.functional.one_hot(a, k).float()
    count = one_hot.sum(0)
    return (one_hot.T @ x) / count.clamp(min=1)[:, None]


@torch.compile
def lloyd(x, c):
    a = assign(x, c)
    new = update(x, a, c.shape[0])
    return new, a, (new - c).norm()


torch.manual_seed(0)
centers = torch.randn(64, 48) * 2
x = centers[torch.randint(0, 64, (20_000,))] + torch.randn(20_000, 48)
c = x[torch.randperm(20_000)[:64]]
for it in range(40):
    c, a, shift = lloyd(x, c)
    if shift.item() < 1e-7:
        print("converged", it)
        break
print(shift.item(), a.bincount().float().std().item())
