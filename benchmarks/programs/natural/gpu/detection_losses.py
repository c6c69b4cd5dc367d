"""Sigmoid focal loss and generalised IoU over many anchors, gradients to predictions."""

import os

import torch
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def giou(p, t):
    lt, rb = torch.maximum(p[..., :2], t[..., :2]), torch.minimum(p[..., 2:], t[..., 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh.prod(-1)
    area_p, area_t = (p[..., 2:] - p[..., :2]).prod(-1), (t[..., 2:] - t[..., :2]).prod(-1)
    union = area_p + area_t - inter
    hull = (torch.maximum(p[..., 2:], t[..., 2:]) - torch.minimum(p[..., :2], t[..., :2])).prod(-1)
    return inter / (union + 1e-7) - (hull - union) / (hull + 1e-7)


def criterion(logits, boxes, labels, targets):
    onehot = F.one_hot(labels.clamp(min=0), logits.shape[-1]).to(logits.dtype)
    positive = (labels >= 0).to(logits.dtype)
    target = onehot * positive[..., None]
    p = logits.sigmoid()
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    pt = p * target + (1 - p) * (1 - target)
    weight = 0.25 * target + 0.75 * (1 - target)
    count = positive.sum().clamp(min=1)
    cls = (weight * (1 - pt) ** 2 * ce).sum() / count
    box = ((1 - giou(boxes, targets)) * positive).sum() / count
    return cls + 2 * box


def build(device, compiled):
    torch.manual_seed(0)
    n, anchors, classes = pick(8, 2), pick(50_000, 100), 80
    logits = (torch.randn(n, anchors, classes, device=device) - 4).requires_grad_()
    xy = torch.rand(n, anchors, 2, device=device) * 500
    boxes = torch.cat([xy, xy + 20 + torch.rand_like(xy) * 50], -1).requires_grad_()
    targets = torch.cat([xy + 3, xy + 40], -1)
    labels = torch.randint(-200, classes, (n, anchors), device=device)
    loss_fn = torch.compile(criterion, backend=BACKEND) if compiled else criterion

    def step():
        logits.grad = boxes.grad = None
        loss = loss_fn(logits, boxes, labels, targets)
        loss.backward()
        return loss.detach()

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
