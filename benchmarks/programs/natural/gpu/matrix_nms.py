"""Pairwise box overlap with matrix suppression, as SOLO does it."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def box_iou(a, b):
    area_a = (a[..., 2] - a[..., 0]) * (a[..., 3] - a[..., 1])
    area_b = (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])
    lt = torch.maximum(a[..., :, None, :2], b[..., None, :, :2])
    rb = torch.minimum(a[..., :, None, 2:], b[..., None, :, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    return inter / (area_a[..., :, None] + area_b[..., None, :] - inter)


def matrix_nms(boxes, scores, labels, sigma=2.0, keep=100):
    scores, order = scores.sort(dim=1, descending=True)
    boxes = torch.gather(boxes, 1, order[..., None].expand(-1, -1, 4))
    labels = torch.gather(labels, 1, order)
    same = labels[:, :, None] == labels[:, None, :]
    iou = (box_iou(boxes, boxes) * same).triu(diagonal=1)
    compensate = iou.max(dim=1).values
    decay = torch.exp(-sigma * iou**2) / torch.exp(-sigma * compensate**2)[:, :, None]
    scores = scores * decay.min(dim=1).values
    best, index = scores.topk(keep, dim=1)
    return torch.gather(boxes, 1, index[..., None].expand(-1, -1, 4)), best


def build(device, compiled):
    torch.manual_seed(0)
    n, k = pick(8, 2), pick(2000, 128)
    xy = torch.rand(n, k, 2, device=device) * 800
    boxes = torch.cat([xy, xy + 4 + 100 * torch.rand(n, k, 2, device=device)], -1)
    scores = torch.rand(n, k, device=device)
    labels = torch.randint(80, (n, k), device=device)
    nms = torch.compile(matrix_nms, backend=BACKEND) if compiled else matrix_nms

    def step():
        return nms(boxes, scores, labels)[1]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
