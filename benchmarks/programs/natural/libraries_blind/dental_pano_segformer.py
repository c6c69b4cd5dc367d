"""Segmentation of panoramic dental radiographs with SegFormer (transformers).

The clinic's devices deliver images of four formats; the service reads a queue of studies, pads to multiples of 32,
normalises, runs SegFormer-B0 and returns areas per class at full resolution.
"""

import collections
import time

import torch
import torch.nn.functional as F
from transformers import SegformerConfig, SegformerForSemanticSegmentation

LABELS = ["background", "enamel", "dentine", "pulp", "filling", "crown", "implant", "jaw"]
FORMATS = [(160, 320), (150, 300), (192, 352), (176, 384)]
STUDIES = 72


def synthetic_pano(height, width, gen):
    """A parabola of teeth on a darker jaw, with a few bright fillings."""
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
    arch = 0.25 * xx**2 - 0.05
    img = 0.25 + 0.2 * torch.exp(-(((yy - arch) / 0.6) ** 2))
    teeth = (torch.cos(xx * 32.0) > -0.6) & ((yy - arch).abs() < 0.35) & (xx.abs() < 0.85)
    img = img + 0.3 * teeth
    for _ in range(4):
        cx, cy = torch.rand(2, generator=gen) * 1.2 - 0.6
        img = img + 0.4 * torch.exp(-(((xx - cx) / 0.03) ** 2 + ((yy - 0.25 * cx**2 - 0.1 * cy) / 0.05) ** 2))
    img = img + 0.03 * torch.randn(height, width, generator=gen)
    return (img.clamp(0, 1) * 65535).to(torch.int32)


def build_model():
    config = SegformerConfig(
        num_channels=1,
        num_labels=len(LABELS),
        depths=[2, 2, 2, 2],
        sr_ratios=[8, 4, 2, 1],
        hidden_sizes=[32, 64, 160, 256],
        decoder_hidden_size=256,
        num_attention_heads=[1, 2, 5, 8],
    )
    return SegformerForSemanticSegmentation(config).eval()


class PanoService:
    def __init__(self):
        self.model = build_model()
        self.forward = torch.compile(self.model)

    def preprocess(self, raw):
        img = raw.to(torch.float32) / 65535.0
        lo, hi = torch.quantile(img[::4, ::4], torch.tensor([0.01, 0.99]))
        img = ((img - lo) / (hi - lo).clamp_min(1e-3)).clamp(0, 1)
        img = (img - 0.45) / 0.22
        h, w = img.shape
        return F.pad(img, (0, -w % 32, 0, -h % 32))[None, None]

    @torch.inference_mode()
    def __call__(self, raw):
        x = self.preprocess(raw)
        logits = self.forward(pixel_values=x).logits
        logits = F.interpolate(logits, size=x.shape[-2:], mode="bilinear", align_corners=False)
        logits = logits[..., : raw.shape[0], : raw.shape[1]]
        prob = logits.softmax(1)
        mask = prob.argmax(1)[0]
        areas = torch.bincount(mask.flatten(), minlength=len(LABELS))
        confidence = prob.amax(1).mean()
        return mask.to(torch.uint8), areas, confidence.item()


def main():
    torch.manual_seed(8)
    gen = torch.Generator().manual_seed(8)
    # most devices of the practice are of the first two formats
    picks = torch.multinomial(
        torch.tensor([0.4, 0.3, 0.2, 0.1]), STUDIES, replacement=True, generator=gen
    ).tolist()
    queue = collections.deque(synthetic_pano(*FORMATS[p], gen) for p in picks)
    service = PanoService()

    areas = torch.zeros(len(LABELS), dtype=torch.long)
    confidences, latency = [], []
    while queue:
        raw = queue.popleft()
        t0 = time.perf_counter()
        _, a, c = service(raw)
        latency.append(time.perf_counter() - t0)
        areas += a
        confidences.append(c)

    latency = torch.tensor(latency) * 1e3
    share = areas.float() / areas.sum()
    print("share of pixels: " + ", ".join(f"{n} {s:.3f}" for n, s in zip(LABELS, share.tolist())))
    print(f"mean confidence {sum(confidences) / len(confidences):.3f}")
    print(
        f"latency ms: median {latency.median():.1f}, p95 {latency.quantile(0.95):.1f}, max {latency.max():.1f}"
    )


if __name__ == "__main__":
    main()
