"""Dense detection head over a pyramid, box decoding and the best thousand candidates."""

import math
import os

import torch
import torch.nn as nn

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Head(nn.Module):
    def __init__(self, ch=128, anchors=9, classes=20):
        super().__init__()

        def tower():
            layers = []
            for _ in range(2):
                layers += [nn.Conv2d(ch, ch, 3, padding=1), nn.GroupNorm(16, ch), nn.ReLU()]
            return nn.Sequential(*layers)

        self.cls_tower, self.box_tower = tower(), tower()
        self.cls = nn.Conv2d(ch, anchors * classes, 3, padding=1)
        self.box = nn.Conv2d(ch, anchors * 4, 3, padding=1)
        self.classes = classes

    def forward(self, features):
        scores, deltas = [], []
        for f in features:
            c = self.cls(self.cls_tower(f))
            n, _, h, w = c.shape
            scores.append(
                c.view(n, -1, self.classes, h, w).permute(0, 3, 4, 1, 2).reshape(n, -1, self.classes)
            )
            b = self.box(self.box_tower(f))
            deltas.append(b.view(n, -1, 4, h, w).permute(0, 3, 4, 1, 2).reshape(n, -1, 4))
        return torch.cat(scores, 1), torch.cat(deltas, 1)


def decode(deltas, anchors):
    size = anchors[:, 2:] - anchors[:, :2]
    center = anchors[:, :2] + 0.5 * size
    xy = deltas[..., :2] * size + center
    wh = deltas[..., 2:].clamp(max=math.log(1000 / 16)).exp() * size
    return torch.cat([xy - wh / 2, xy + wh / 2], -1)


def detect(head, features, anchors, image_size):
    logits, deltas = head(features)
    boxes = decode(deltas, anchors).clamp(0, image_size)
    scores, labels = logits.sigmoid().max(-1)
    top, index = scores.topk(min(1000, scores.shape[1]), dim=1)
    boxes = boxes.gather(1, index[..., None].expand(-1, -1, 4))
    return boxes, top, labels.gather(1, index)


def build(device, compiled):
    torch.manual_seed(0)
    head = Head().to(device).eval()
    size = pick(512, 64)
    features = [torch.randn(pick(4, 1), 128, size // s, size // s, device=device) for s in (8, 16, 32)]
    count = sum(f.shape[2] * f.shape[3] * 9 for f in features)
    corner = torch.rand(count, 2, device=device) * size
    anchors = torch.cat([corner, corner + 16 + 64 * torch.rand(count, 2, device=device)], 1)
    run = torch.compile(detect, backend=BACKEND) if compiled else detect

    @torch.no_grad()
    def step():
        return run(head, features, anchors, size)[0]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
