"""Edge-preserving guided filter by box filters over integral images."""

import os

import torch
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def box_filter(x, r):
    padded = F.pad(x, (r + 1, r, r + 1, r), mode="replicate")
    s = padded.cumsum(-1).cumsum(-2)
    k = 2 * r + 1
    return (s[..., k:, k:] - s[..., :-k, k:] - s[..., k:, :-k] + s[..., :-k, :-k]) / (k * k)


def guided_filter(guide, src, r=8, eps=1e-3):
    mean_g, mean_s = box_filter(guide, r), box_filter(src, r)
    cov = box_filter(guide * src, r) - mean_g * mean_s
    var = box_filter(guide * guide, r) - mean_g * mean_g
    a = cov / (var + eps)
    b = mean_s - a * mean_g
    return box_filter(a, r) * guide + box_filter(b, r)


def dehaze(image, r=8, omega=0.95):
    dark = -F.max_pool2d(-image.amin(1, keepdim=True), 15, 1, 7)
    air = image.flatten(2).amax(-1)[..., None, None]
    t = 1 - omega * dark / air.mean(1, keepdim=True)
    gray = image.mean(1, keepdim=True)
    t = guided_filter(gray, t, r).clamp(min=0.1)
    return ((image - air) / t + air).clamp(0, 1)


def build(device, compiled):
    torch.manual_seed(0)
    image = torch.rand(pick(8, 1), 3, pick(1080, 40), pick(1920, 64), device=device)
    run = torch.compile(dehaze, backend=BACKEND) if compiled else dehaze

    @torch.no_grad()
    def step():
        return run(image)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
