"""Bottom-up panoptic fusion (centre heatmap + offset regression) for an edge box without a GPU.

Reads the raw head outputs of a street-scene network frame by frame and produces an id map plus a list of
segments. The head outputs are synthesised here from random layouts, with noise on every channel.
"""

import logging
import time

import torch
import torch.nn.functional as F
from torch import Tensor

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("panoptic")

H, W = 256, 512
STUFF = ["road", "building", "vegetation", "sky"]
THINGS = ["person", "car", "bicycle"]
N_CLASSES = len(STUFF) + len(THINGS)
LABEL_DIVISOR = 1000
MIN_STUFF_AREA = 1024


class FrameSource:
    """Ellipses of three thing classes over a banded background."""

    def __init__(self, seed: int):
        self.gen = torch.Generator().manual_seed(seed)
        self.yy, self.xx = torch.meshgrid(torch.arange(H).float(), torch.arange(W).float(), indexing="ij")

    def rand(self, *s):
        return torch.rand(*s, generator=self.gen)

    def next(self) -> tuple[Tensor, Tensor, Tensor, int]:
        sem = torch.zeros(N_CLASSES, H, W)
        horizon = int(H * (0.3 + 0.1 * self.rand(1).item()))
        sem[3, : horizon // 2] = 1
        sem[1, horizon // 2 : horizon] = 1
        sem[2, horizon : horizon + 30] = 1
        sem[0, horizon + 30 :] = 1
        heat, off = torch.zeros(1, H, W), torch.zeros(2, H, W)
        n = int(torch.randint(6, 28, (1,), generator=self.gen))
        for _ in range(n):
            cls = len(STUFF) + int(torch.randint(len(THINGS), (1,), generator=self.gen))
            cy, cx = horizon + self.rand(1).item() * (H - horizon - 8), 8 + self.rand(1).item() * (W - 16)
            ry, rx = 6 + 22 * self.rand(1).item(), 6 + 26 * self.rand(1).item()
            d = ((self.yy - cy) / ry) ** 2 + ((self.xx - cx) / rx) ** 2
            inside = d < 1
            sem[:, inside] = 0
            sem[cls, inside] = 1
            off[0, inside], off[1, inside] = (cy - self.yy)[inside], (cx - self.xx)[inside]
            heat = torch.maximum(heat, torch.exp(-((self.yy - cy) ** 2 + (self.xx - cx) ** 2) / 32)[None])
        sem = 4 * sem + 0.8 * torch.randn(sem.shape, generator=self.gen)
        off = off + 1.5 * torch.randn(off.shape, generator=self.gen)
        heat = (heat + 0.02 * torch.randn(heat.shape, generator=self.gen)).clamp(0, 1)
        return sem, heat, off, n


def find_centers(heat: Tensor, threshold: float = 0.3, nms: int = 7, top_k: int = 200) -> Tensor:
    heat = F.threshold(heat, threshold, -1.0)
    pooled = F.max_pool2d(heat[None], nms, stride=1, padding=nms // 2)[0]
    heat = torch.where(heat == pooled, heat, -1.0)[0]
    centers = torch.nonzero(heat > 0)
    if centers.shape[0] > top_k:
        score = heat[centers[:, 0], centers[:, 1]]
        centers = centers[score.topk(top_k).indices]
    return centers


def group_pixels(centers: Tensor, offsets: Tensor) -> Tensor:
    """Assign every pixel to the centre closest to where its offset points; ids start at 1."""
    y = torch.arange(H, dtype=offsets.dtype)[:, None].expand(H, W)
    x = torch.arange(W, dtype=offsets.dtype)[None, :].expand(H, W)
    loc = torch.stack([y + offsets[0], x + offsets[1]]).reshape(2, -1).t()
    dist = torch.norm(centers[:, None, :].to(loc.dtype) - loc[None], dim=-1)
    return dist.argmin(dim=0).reshape(H, W) + 1


def merge(semantic: Tensor, instance: Tensor, thing_ids: list[int]) -> Tensor:
    pan = torch.full_like(semantic, -1)
    is_thing = semantic >= thing_ids[0]
    seen: dict[int, int] = {}
    for ins in torch.unique(instance).tolist():
        mask = (instance == ins) & is_thing
        if not mask.any():
            continue
        cls = torch.mode(semantic[mask]).values.item()
        seen[cls] = seen.get(cls, 0) + 1
        pan[mask] = cls * LABEL_DIVISOR + seen[cls]
    for cls in range(thing_ids[0]):
        mask = semantic == cls
        if mask.sum() >= MIN_STUFF_AREA:
            pan[mask] = cls * LABEL_DIVISOR
    return pan


@torch.compile
def postprocess(sem_logits: Tensor, heat: Tensor, offsets: Tensor) -> Tensor:
    prob = sem_logits.softmax(0)
    smooth = F.avg_pool2d(prob[None], 5, stride=1, padding=2)[0]
    semantic = smooth.argmax(0)
    things = list(range(len(STUFF), N_CLASSES))
    centers = find_centers(heat)
    if centers.shape[0] == 0:
        instance = torch.zeros_like(semantic)
    else:
        instance = group_pixels(centers, offsets)
    return merge(semantic, instance, things)


def segments(pan: Tensor) -> list[tuple[str, int]]:
    ids, area = torch.unique(pan, return_counts=True)
    names = STUFF + THINGS
    return [(names[i // LABEL_DIVISOR] if i >= 0 else "void", a) for i, a in zip(ids.tolist(), area.tolist())]


@torch.no_grad()
def main() -> None:
    src = FrameSource(seed=21)
    frames = [src.next() for _ in range(50)]
    log.info("%d frames of %d x %d ready", len(frames), H, W)
    found = planted = 0
    busy = 0.0
    for i, (sem, heat, off, n) in enumerate(frames):
        tic = time.perf_counter()
        pan = postprocess(sem, heat, off)
        busy += time.perf_counter() - tic
        segs = segments(pan)
        found += sum(name in THINGS for name, _ in segs)
        planted += n
        if i % 10 == 9:
            log.info("frame %2d: %2d segments, %.1f ms per frame so far", i, len(segs), 1e3 * busy / (i + 1))
    log.info("instances: %d found, %d planted", found, planted)


if __name__ == "__main__":
    main()
