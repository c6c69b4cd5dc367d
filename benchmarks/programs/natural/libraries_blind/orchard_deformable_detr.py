"""Throughput check of a Deformable-DETR fruit detector on a small edge box (CPU).

Random weights: only the speed of the forward pass matters here, the trained
checkpoint has the same shapes.
"""

import time

import torch
from transformers import DeformableDetrConfig, DeformableDetrForObjectDetection, ResNetConfig

torch.manual_seed(7)

IMG = 256
BATCH = 2
N_TILES = 14
N_WARMUP = 2
CLASSES = ["apple", "leaf_cluster", "trunk", "post"]


def build_model():
    backbone = ResNetConfig(
        num_channels=3,
        embedding_size=32,
        hidden_sizes=[32, 64, 128, 256],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    config = DeformableDetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=backbone,
        num_labels=len(CLASSES),
        d_model=256,
        encoder_layers=3,
        decoder_layers=3,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=512,
        decoder_ffn_dim=512,
        num_queries=100,
        num_feature_levels=4,
        encoder_n_points=4,
        decoder_n_points=4,
        disable_custom_kernels=True,
    )
    model = DeformableDetrForObjectDetection(config)
    return model.eval()


def orchard_tiles(n, size, generator):
    """Green noise with a few red discs, cut as the drone pipeline cuts tiles."""
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    for _ in range(n):
        img = 0.15 * torch.rand(BATCH, 3, size, size, generator=generator)
        img[:, 1] += 0.35
        for b in range(BATCH):
            for _ in range(12):
                cx, cy = torch.randint(10, size - 10, (2,), generator=generator).tolist()
                r = int(torch.randint(3, 9, (1,), generator=generator))
                disc = (xx - cx) ** 2 + (yy - cy) ** 2 < r * r
                img[b, 0][disc] = 0.9
                img[b, 1][disc] = 0.1
        yield (img - 0.4) / 0.25


def to_boxes(logits, boxes, size, k=20):
    prob = logits.sigmoid().flatten(1)
    score, idx = prob.topk(k, dim=1)
    query = idx // logits.shape[-1]
    label = idx % logits.shape[-1]
    cxcywh = torch.gather(boxes, 1, query[..., None].expand(-1, -1, 4))
    half = cxcywh[..., 2:] / 2
    xyxy = torch.cat([cxcywh[..., :2] - half, cxcywh[..., :2] + half], -1) * size
    return score, label, xyxy


def main():
    model = build_model()
    n_params = sum(p.numel() for p in model.parameters()) / 1e6
    print(f"deformable detr, {n_params:.1f}M parameters, tiles {IMG}x{IMG}, batch {BATCH}")

    model = torch.compile(model)
    gen = torch.Generator().manual_seed(11)
    tiles = list(orchard_tiles(N_TILES, IMG, gen))
    mask = torch.ones(BATCH, IMG, IMG, dtype=torch.long)

    counts = torch.zeros(len(CLASSES), dtype=torch.long)
    times = []
    with torch.no_grad():
        for i, pixel_values in enumerate(tiles):
            t0 = time.perf_counter()
            out = model(pixel_values=pixel_values, pixel_mask=mask)
            score, label, xyxy = to_boxes(out.logits, out.pred_boxes, IMG)
            dt = time.perf_counter() - t0
            if i >= N_WARMUP:
                times.append(dt)
            counts += torch.bincount(label.flatten(), minlength=len(CLASSES))[: len(CLASSES)]

    times = torch.tensor(times)
    print(f"median {1e3 * times.median():.1f} ms per batch, {BATCH / times.median():.2f} tiles/s")
    print("top-20 detections by class:", dict(zip(CLASSES, counts.tolist())))
    print(f"last best score {score.max():.3f}, box {[round(v, 1) for v in xyxy[0, 0].tolist()]}")


if __name__ == "__main__":
    main()
