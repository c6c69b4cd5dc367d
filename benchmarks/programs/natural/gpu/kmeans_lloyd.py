"""Lloyd iterations of k-means with empty-cluster repair."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def lloyd(x, centers, rounds=3):
    for _ in range(rounds):
        d = torch.cdist(x, centers)
        best, label = d.min(1)
        sums = torch.zeros_like(centers).index_add(0, label, x)
        count = torch.bincount(label, minlength=centers.shape[0]).to(x.dtype)
        far = x[best.topk(centers.shape[0]).indices]
        centers = torch.where((count > 0)[:, None], sums / count.clamp(min=1)[:, None], far)
    return centers, (best**2).mean()


def build(device, compiled):
    torch.manual_seed(0)
    x = torch.randn(pick(200_000, 200), 64, device=device)
    state = [x[: pick(512, 16)].clone()]
    run = torch.compile(lloyd, backend=BACKEND) if compiled else lloyd

    def step():
        state[0], inertia = run(x, state[0])
        return inertia

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
