"""Box statistics by summed areas at three radii, and a local contrast map with its ten strongest cells."""

import torch
import torch.nn.functional as F

dev = "cuda"
img = torch.rand(8, 1, 1080, 1920, device=dev)


def box(x, r):
    s = F.pad(x, (r + 1, r, r + 1, r)).cumsum(-1).cumsum(-2)
    k = 2 * r + 1
    return (s[..., k:, k:] - s[..., :-k, k:] - s[..., k:, :-k] + s[..., :-k, :-k]) / (k * k)


def contrast(x):
    out = 0
    for r in (2, 7, 21):
        m = box(x, r)
        v = (box(x * x, r) - m * m).clamp_min(0)
        out = out + (x - m) / (v.sqrt() + 0.01)
    cells = F.adaptive_avg_pool2d(out.abs(), (27, 48)).flatten(1)
    return out, cells.topk(10).indices


fast = torch.compile(contrast)
with torch.no_grad():
    for _ in range(50):
        y, c = fast(img)
print(y.mean().item())
