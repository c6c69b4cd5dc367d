"""RetinaNet-style detector inference in fp16 with compiled heads and box decoding, then batched NMS, over images of several sizes."""

from collections import OrderedDict

import timm
import torch
import torch.nn as nn
import torchvision
from torchvision.ops import FeaturePyramidNetwork, batched_nms


class Detector(nn.Module):
    def __init__(self, num_classes=80, num_anchors=9, width=256):
        super().__init__()
        self.body = timm.create_model(
            "regnetx_004", pretrained=False, features_only=True, out_indices=(2, 3, 4)
        )
        self.fpn = FeaturePyramidNetwork(self.body.feature_info.channels(), width)
        self.cls_tower = self._tower(width, 3)
        self.box_tower = self._tower(width, 3)
        self.cls_out = nn.Conv2d(width, num_anchors * num_classes, 3, padding=1)
        self.box_out = nn.Conv2d(width, num_anchors * 4, 3, padding=1)
        self.num_classes = num_classes
        nn.init.constant_(self.cls_out.bias, -2.5)

    @staticmethod
    def _tower(width, n):
        layers = []
        for _ in range(n):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(32, width), nn.ReLU(inplace=True)]
        return nn.Sequential(*layers)

    def forward(self, x):
        feats = self.body(x)
        feats = self.fpn(OrderedDict((f"p{i + 3}", f) for i, f in enumerate(feats)))
        logits, deltas = [], []
        for f in feats.values():
            b = f.shape[0]
            logits.append(
                self.cls_out(self.cls_tower(f)).permute(0, 2, 3, 1).reshape(b, -1, self.num_classes)
            )
            deltas.append(self.box_out(self.box_tower(f)).permute(0, 2, 3, 1).reshape(b, -1, 4))
        return logits, deltas


def make_anchors(h, w, stride, device):
    sizes = torch.tensor([4 * stride * 2 ** (i / 3) for i in range(3)], device=device)
    ratios = torch.tensor([0.5, 1.0, 2.0], device=device).sqrt()
    ws = (sizes[:, None] / ratios).flatten()
    hs = (sizes[:, None] * ratios).flatten()
    base = torch.stack([-ws, -hs, ws, hs], 1) / 2
    ys, xs = torch.meshgrid(torch.arange(h, device=device), torch.arange(w, device=device), indexing="ij")
    shift = torch.stack([xs, ys, xs, ys], -1).reshape(-1, 1, 4) * stride + stride // 2
    return (shift + base).reshape(-1, 4)


@torch.compile
def decode_level(logits, deltas, anchors, h: int, w: int):
    scores, idx = logits.float().sigmoid().flatten(1).topk(1000, dim=1)
    labels = idx % logits.shape[-1]
    which = idx // logits.shape[-1]
    a = anchors[which]
    d = torch.gather(deltas.float(), 1, which[..., None].expand(-1, -1, 4))
    aw, ah = a[..., 2] - a[..., 0], a[..., 3] - a[..., 1]
    cx = a[..., 0] + 0.5 * aw + d[..., 0] * aw
    cy = a[..., 1] + 0.5 * ah + d[..., 1] * ah
    bw, bh = aw * d[..., 2].clamp(max=4.0).exp(), ah * d[..., 3].clamp(max=4.0).exp()
    x1, x2 = (cx - bw / 2).clamp(0, w), (cx + bw / 2).clamp(0, w)
    y1, y2 = (cy - bh / 2).clamp(0, h), (cy + bh / 2).clamp(0, h)
    return torch.stack([x1, y1, x2, y2], -1), scores, labels


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    net = Detector().cuda().half().eval().to(memory_format=torch.channels_last)
    net = torch.compile(net)
    sizes = [(640, 640), (640, 896), (640, 640), (768, 896)]
    total, mean_score = 0, 0.0
    for step in range(20):
        h, w = sizes[step % len(sizes)]
        img = torch.randn(2, 3, h, w, device="cuda", dtype=torch.half).to(memory_format=torch.channels_last)
        logits, deltas = net(img)
        boxes, scores, labels = [], [], []
        for lvl, (lo, de) in enumerate(zip(logits, deltas)):
            stride = 8 * 2**lvl
            out = decode_level(lo, de, make_anchors(h // stride, w // stride, stride, "cuda"), h, w)
            boxes.append(out[0])
            scores.append(out[1])
            labels.append(out[2])
        boxes, scores, labels = torch.cat(boxes, 1), torch.cat(scores, 1), torch.cat(labels, 1)
        for b, s, l in zip(boxes, scores, labels):
            m = s > 0.05
            keep = batched_nms(b[m], s[m], l[m], 0.5)[:100]
            total += keep.numel()
            mean_score += s[m][keep].mean().item() / 40
    print("torchvision", torchvision.__version__, "detections", total, "mean score %.4f" % mean_score)


if __name__ == "__main__":
    main()
