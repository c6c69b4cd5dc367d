"""Single-shot detector's post-processing: decode anchors, threshold, class-wise NMS in plain torch."""

import torch


def make_anchors(sizes=((40, 40), (20, 20), (10, 10), (5, 5)), per=6):
    out = []
    for level, (h, w) in enumerate(sizes):
        y, x = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
        for k in range(per):
            s = 0.08 * 2**level * (1 + 0.3 * k)
            out.append(
                torch.stack([x / w, y / h, torch.full_like(x, s), torch.full_like(x, s * 0.8)], -1).view(
                    -1, 4
                )
            )
    return torch.cat(out)


def iou(a, b):
    lt = torch.maximum(a[:, None, :2], b[None, :, :2])
    rb = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    area_a = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    area_b = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    return inter / (area_a[:, None] + area_b[None] - inter)


def nms(boxes, scores, threshold):
    order = scores.argsort(descending=True)
    boxes = boxes[order]
    overlap = iou(boxes, boxes).triu(1)
    keep = torch.ones(len(boxes), dtype=torch.bool)
    for k in range(min(len(boxes), 200)):
        if keep[k]:
            keep &= ~(overlap[k] > threshold)
    return order[keep]


def postprocess(loc, conf, anchors, score_threshold=0.25, iou_threshold=0.5):
    cxcy = anchors[:, :2] + loc[..., :2] * 0.1 * anchors[:, 2:]
    wh = anchors[:, 2:] * torch.exp(loc[..., 2:] * 0.2)
    boxes = torch.cat([cxcy - wh / 2, cxcy + wh / 2], -1).clamp(0, 1)
    scores = conf.softmax(-1)
    results = []
    for b in range(loc.shape[0]):
        for c in range(1, scores.shape[-1]):
            s = scores[b, :, c]
            pick = s > score_threshold
            if pick.sum() == 0:
                continue
            cand = boxes[b][pick]
            kept = nms(cand, s[pick], iou_threshold)
            results.append(cand[kept])
    return torch.cat(results)


torch.manual_seed(0)
anchors = make_anchors()
run = torch.compile(postprocess)
with torch.inference_mode():
    for _ in range(20):
        loc = torch.randn(2, anchors.shape[0], 4)
        conf = torch.randn(2, anchors.shape[0], 6) * 1.2
        out = run(loc, conf, anchors)
print(out.shape)
