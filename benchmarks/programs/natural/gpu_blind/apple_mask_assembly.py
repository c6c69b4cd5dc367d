"""Post-processing of an instance-segmentation head on a sorting line: boxes, fast NMS, masks from
prototypes, and the size of each apple. The network's raw outputs are simulated."""

import torch
import torch.nn.functional as F

device = "cuda"
IMAGES, BATCHES = 16, 160
IMG, STRIDES, N_CLASSES, N_PROTO = 640, (8, 16, 32), 3, 32  # sound, bruised, rotten
SCORE_MIN, IOU_MAX, PRE_NMS, MAX_DET = 0.35, 0.5, 300, 100
MM_PER_PIXEL = 0.62


def make_grid():
    points, strides = [], []
    for s in STRIDES:
        n = IMG // s
        yy, xx = torch.meshgrid(torch.arange(n, device=device), torch.arange(n, device=device), indexing="ij")
        points.append(torch.stack([xx, yy], dim=-1).reshape(-1, 2) + 0.5)
        strides.append(torch.full((n * n, 1), float(s), device=device))
    return torch.cat(points), torch.cat(strides)


def box_iou(a, b):
    top_left = torch.max(a[:, None, :2], b[None, :, :2])
    bottom_right = torch.min(a[:, None, 2:], b[None, :, 2:])
    inter = (bottom_right - top_left).clamp(min=0).prod(-1)
    area_a = (a[:, 2:] - a[:, :2]).prod(-1)
    area_b = (b[:, 2:] - b[:, :2]).prod(-1)
    return inter / (area_a[:, None] + area_b[None] - inter + 1e-6)


def crop_masks(masks, boxes):
    n, h, w = masks.shape
    x1, y1, x2, y2 = boxes[:, :, None].chunk(4, dim=1)
    cols = torch.arange(w, device=masks.device, dtype=boxes.dtype)[None, None, :]
    rows = torch.arange(h, device=masks.device, dtype=boxes.dtype)[None, :, None]
    return masks * ((cols >= x1) & (cols < x2) & (rows >= y1) & (rows < y2))


def measure(masks):
    """Area, centroid and equivalent diameter, elongation from second moments."""
    m = masks.float()
    area = m.sum(dim=(1, 2)).clamp(min=1)
    xs = torch.arange(m.shape[2], device=m.device, dtype=m.dtype)
    ys = torch.arange(m.shape[1], device=m.device, dtype=m.dtype)
    cx = (m.sum(1) * xs).sum(1) / area
    cy = (m.sum(2) * ys).sum(1) / area
    dx, dy = xs[None] - cx[:, None], ys[None] - cy[:, None]
    sxx = (m.sum(1) * dx.square()).sum(1) / area
    syy = (m.sum(2) * dy.square()).sum(1) / area
    sxy = (m * dx[:, None, :] * dy[:, :, None]).sum(dim=(1, 2)) / area
    root = ((sxx - syy).square() + 4 * sxy.square()).sqrt()
    elongation = ((sxx + syy + root) / (sxx + syy - root).clamp(min=1e-3)).sqrt()
    diameter = 2 * (area / torch.pi).sqrt() * MM_PER_PIXEL
    return torch.stack([area, cx, cy, diameter, elongation], dim=1)


def postprocess_image(logits, ltrb, coeffs, proto, points, strides):
    scores, labels = logits.sigmoid().max(dim=-1)
    keep = scores > SCORE_MIN
    if keep.sum() == 0:
        return None
    scores, labels = scores[keep], labels[keep]
    coeffs, ltrb, points, strides = coeffs[keep], ltrb[keep], points[keep], strides[keep]
    boxes = torch.cat([points - ltrb[:, :2], points + ltrb[:, 2:]], dim=-1) * strides

    scores, order = scores.topk(min(PRE_NMS, scores.numel()))
    boxes, labels, coeffs = boxes[order].clamp(0, IMG), labels[order], coeffs[order]
    iou = box_iou(boxes, boxes) * (labels[:, None] == labels[None])
    survivors = iou.triu(diagonal=1).amax(dim=0) < IOU_MAX
    boxes, labels, scores = (
        boxes[survivors][:MAX_DET],
        labels[survivors][:MAX_DET],
        scores[survivors][:MAX_DET],
    )
    coeffs = coeffs[survivors][:MAX_DET]

    masks = torch.einsum("nk,khw->nhw", coeffs, proto).sigmoid()
    masks = crop_masks(masks, boxes * (proto.shape[-1] / IMG))
    masks = F.interpolate(masks[None], size=(IMG, IMG), mode="bilinear", align_corners=False)[0] > 0.5
    return {"boxes": boxes, "labels": labels, "scores": scores, "masks": masks, "size": measure(masks)}


@torch.compile
def postprocess(outputs, points, strides):
    logits, ltrb, coeffs, protos = outputs
    results = []
    for i in range(logits.shape[0]):
        results.append(postprocess_image(logits[i], ltrb[i], coeffs[i], protos[i], points, strides))
    return results


def fake_network_outputs(points, strides, gen):
    """A handful of apples per image; anchors near their centres score high."""
    n_anchor = points.shape[0]
    centre = torch.rand(IMAGES, 25, 2, generator=gen, device=device) * (IMG - 80) + 40
    radius = 20 + 35 * torch.rand(IMAGES, 25, generator=gen, device=device)
    where = (points * strides)[None, :, None]
    dist, nearest = (where - centre[:, None]).norm(dim=-1).min(dim=-1)
    logits = -4 + torch.randn(IMAGES, n_anchor, N_CLASSES, generator=gen, device=device)
    logits += 6.0 * (dist < 0.5 * radius.gather(1, nearest))[..., None]
    c = centre.gather(1, nearest[..., None].expand(-1, -1, 2))
    r = radius.gather(1, nearest)[..., None]
    jitter = 1 + 0.05 * torch.randn(IMAGES, n_anchor, 4, generator=gen, device=device)
    ltrb = torch.cat([(where[:, :, 0] - c + r), (c + r - where[:, :, 0])], dim=-1) * jitter / strides
    coeffs = torch.randn(IMAGES, n_anchor, N_PROTO, generator=gen, device=device) * 0.3
    coeffs[..., 0] += 2.0
    protos = torch.randn(IMAGES, N_PROTO, IMG // 4, IMG // 4, generator=gen, device=device) * 0.5
    protos[:, 0] += 1.0
    return logits, ltrb, coeffs, protos


@torch.inference_mode()
def main():
    gen = torch.Generator(device=device).manual_seed(4)
    points, strides = make_grid()
    pool = [fake_network_outputs(points, strides, gen) for _ in range(6)]
    counts, diameters = torch.zeros(N_CLASSES, dtype=torch.long), []
    for step in range(BATCHES):
        for result in postprocess(pool[step % len(pool)], points, strides):
            if result is None:
                continue
            counts += torch.bincount(result["labels"], minlength=N_CLASSES).cpu()
            diameters.append(result["size"][:, 3].mean())
    print("apples seen", int(counts.sum()), "by class", counts.tolist())
    print("mean diameter", round(torch.stack(diameters).mean().item(), 2), "mm")


if __name__ == "__main__":
    main()
