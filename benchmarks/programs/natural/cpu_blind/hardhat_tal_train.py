"""Hard-hat detector for the site cameras: anchor-free head, task-aligned
assignment, CIoU + BCE losses. Fine-tuning loop on the small CPU box.
"""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

IMG = 192
NC = 3  # helmet, head, vest
STRIDES = (8, 16, 32)


class Conv(nn.Module):
    def __init__(self, c1, c2, k=3, s=1):
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, k // 2, bias=False)
        self.bn = nn.BatchNorm2d(c2)
        self.act = nn.SiLU(inplace=True)

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


def bbox_iou(a, b, ciou=False, eps=1e-7):
    ax1, ay1, ax2, ay2 = a.chunk(4, -1)
    bx1, by1, bx2, by2 = b.chunk(4, -1)
    w1, h1 = ax2 - ax1, ay2 - ay1 + eps
    w2, h2 = bx2 - bx1, by2 - by1 + eps
    inter = (ax2.minimum(bx2) - ax1.maximum(bx1)).clamp_(0) * (ay2.minimum(by2) - ay1.maximum(by1)).clamp_(0)
    iou = inter / (w1 * h1 + w2 * h2 - inter + eps)
    if not ciou:
        return iou
    cw = ax2.maximum(bx2) - ax1.minimum(bx1)
    ch = ay2.maximum(by2) - ay1.minimum(by1)
    c2 = cw.pow(2) + ch.pow(2) + eps
    rho2 = ((bx1 + bx2 - ax1 - ax2).pow(2) + (by1 + by2 - ay1 - ay2).pow(2)) / 4
    v = (4 / math.pi**2) * (torch.atan(w2 / h2) - torch.atan(w1 / h1)).pow(2)
    with torch.no_grad():
        alpha = v / (v - iou + (1 + eps))
    return iou - (rho2 / c2 + v * alpha)


class TaskAlignedAssigner(nn.Module):
    topk, alpha, beta, eps = 10, 0.5, 6.0, 1e-9

    @torch.no_grad()
    def forward(self, scores, boxes, anchors, gt_labels, gt_boxes, mask_gt):
        bs, na, nc = scores.shape
        nmax = gt_boxes.shape[1]
        lt, rb = gt_boxes.view(bs, nmax, 1, 4).chunk(2, -1)
        inside = torch.cat((anchors - lt, rb - anchors), -1).amin(-1).gt_(self.eps)
        valid = inside.bool() & mask_gt
        idx = gt_labels.long().squeeze(-1).unsqueeze(-1).expand(-1, -1, na)
        cls = scores.permute(0, 2, 1).gather(1, idx)
        iou = bbox_iou(gt_boxes.unsqueeze(2), boxes.unsqueeze(1)).squeeze(-1).clamp_(0) * valid
        metric = cls.pow(self.alpha) * iou.pow(self.beta) * valid
        top = torch.topk(metric, self.topk, dim=-1)[1]
        in_topk = torch.zeros_like(metric).scatter_(-1, top, 1.0)
        pos = in_topk * valid
        fg = pos.sum(-2)
        if fg.max() > 1:
            multi = (fg.unsqueeze(1) > 1).expand(-1, nmax, -1)
            best = torch.zeros_like(pos).scatter_(1, iou.argmax(1).unsqueeze(1), 1.0)
            pos = torch.where(multi, best, pos)
            fg = pos.sum(-2)
        gt_idx = pos.argmax(-2)
        flat = gt_idx + torch.arange(bs).unsqueeze(1) * nmax
        t_boxes, t_labels = gt_boxes.reshape(-1, 4)[flat], gt_labels.long().flatten()[flat]
        t_scores = F.one_hot(t_labels, nc).to(scores.dtype) * (fg > 0).unsqueeze(-1)
        metric = metric * pos
        norm = metric.amax(-1, keepdim=True)
        peak = (iou * pos).amax(-1, keepdim=True)
        norm = (metric * peak / (norm + self.eps)).amax(-2).unsqueeze(-1)
        return t_boxes, t_scores * norm, fg.bool()


class HelmetNet(nn.Module):
    def __init__(self, w=24):
        super().__init__()
        self.stem = nn.Sequential(Conv(3, w, 3, 2), Conv(w, w, 3, 2))
        self.p3 = nn.Sequential(Conv(w, 2 * w, 3, 2), Conv(2 * w, 2 * w))
        self.p4, self.p5 = Conv(2 * w, 2 * w, 3, 2), Conv(2 * w, 2 * w, 3, 2)
        self.tower = Conv(2 * w, 2 * w)
        self.cls, self.reg = nn.Conv2d(2 * w, NC, 1), nn.Conv2d(2 * w, 4, 1)
        nn.init.constant_(self.cls.bias, -3.0)
        self.assigner = TaskAlignedAssigner()
        pts, st = [], []
        for s in STRIDES:
            n = IMG // s
            sy, sx = torch.meshgrid(torch.arange(n) + 0.5, torch.arange(n) + 0.5, indexing="ij")
            pts.append(torch.stack((sx, sy), -1).view(-1, 2))
            st.append(torch.full((n * n, 1), float(s)))
        self.register_buffer("points", torch.cat(pts))
        self.register_buffer("stride", torch.cat(st))

    def preprocess(self, targets, batch_size):
        i = targets[:, 0]
        _, counts = i.unique(return_counts=True)
        out = torch.zeros(batch_size, counts.max(), 5)
        for j in range(batch_size):
            matches = i == j
            if n := matches.sum():
                out[j, :n] = targets[matches, 1:]
        xy, wh = (out[..., 1:5] * IMG).chunk(2, -1)
        out[..., 1:5] = torch.cat((xy - wh / 2, xy + wh / 2), -1)
        return out

    def predict(self, img):
        c3 = self.p3(self.stem(img))
        c4 = self.p4(c3)
        c5 = self.p5(c4)
        feats = [self.tower(c) for c in (c3, c4, c5)]
        cls = torch.cat([self.cls(f).flatten(2) for f in feats], 2).permute(0, 2, 1)
        reg = torch.cat([self.reg(f).flatten(2) for f in feats], 2).permute(0, 2, 1)
        dist = F.softplus(reg) * 2
        lt, rb = dist.chunk(2, -1)
        return cls, torch.cat((self.points - lt, self.points + rb), -1)

    def loss(self, cls, boxes, batch):
        bs = cls.shape[0]
        targets = torch.cat((batch["batch_idx"].view(-1, 1), batch["cls"].view(-1, 1), batch["bboxes"]), 1)
        targets = self.preprocess(targets, bs)
        gt_labels, gt_boxes = targets.split((1, 4), 2)
        mask_gt = gt_boxes.sum(2, keepdim=True).gt_(0).bool()
        t_boxes, t_scores, fg = self.assigner(
            cls.detach().sigmoid(),
            boxes.detach() * self.stride,
            self.points * self.stride,
            gt_labels,
            gt_boxes,
            mask_gt,
        )
        norm = max(t_scores.sum(), 1)
        loss_cls = F.binary_cross_entropy_with_logits(cls, t_scores, reduction="none").sum() / norm
        loss_box = boxes.sum() * 0
        if fg.sum():
            weight = t_scores.sum(-1)[fg].unsqueeze(-1)
            iou = bbox_iou(boxes[fg], (t_boxes / self.stride)[fg], ciou=True)
            loss_box = ((1.0 - iou) * weight).sum() / norm
        return loss_cls * 0.5 + loss_box * 7.5, torch.stack((loss_cls.detach(), loss_box.detach()))

    def forward(self, batch):
        cls, boxes = self.predict(batch["img"])
        return self.loss(cls, boxes, batch)


def make_batch(g, bs=4):
    counts = torch.randint(1, 9, (bs,), generator=g)
    n = int(counts.sum())
    idx = torch.repeat_interleave(torch.arange(bs), counts).float()
    cls = torch.randint(0, NC, (n,), generator=g).float()
    wh = torch.rand(n, 2, generator=g) * 0.3 + 0.08
    xy = torch.rand(n, 2, generator=g) * 0.6 + 0.2
    img = torch.rand(bs, 3, IMG, IMG, generator=g) * 0.2
    for k in range(n):
        x1, y1 = ((xy[k] - wh[k] / 2).clamp(0) * IMG).int().tolist()
        x2, y2 = ((xy[k] + wh[k] / 2).clamp(max=1) * IMG).int().tolist()
        img[int(idx[k]), int(cls[k]), y1:y2, x1:x2] += 0.6
    return {"img": img, "batch_idx": idx, "cls": cls, "bboxes": torch.cat((xy, wh), 1)}


def main():
    torch.manual_seed(3)
    g = torch.Generator().manual_seed(3)
    batches = [make_batch(g) for _ in range(24)]
    net = HelmetNet()
    opt = torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9, nesterov=True, weight_decay=5e-4)
    model = torch.compile(net)
    times = []
    for step in range(48):
        batch = batches[step % len(batches)]
        t0 = time.perf_counter()
        loss, items = model(batch)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        opt.step()
        times.append(time.perf_counter() - t0)
        if step % 12 == 0:
            print(f"step {step:3d}  cls {items[0]:.3f}  box {items[1]:.3f}")
    steady = sorted(times[16:])
    print(f"final loss {loss.item():.3f}; median step {steady[len(steady) // 2] * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
