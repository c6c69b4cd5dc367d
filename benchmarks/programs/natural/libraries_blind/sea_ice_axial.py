"""Ice-type charts from SAR scenes with a small vision transformer.

A scene is cut into overlapping tiles (the last row and column moved inwards), each tile is labelled per
patch by a transformer with axial rotary positions, and the class scores are blended into one chart.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from einops import rearrange
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

TILE = 256
OVERLAP = 32
PATCH = 8
CLASSES = ["open water", "new ice", "grey ice", "first-year", "multi-year", "land-fast"]


class Attention(nn.Module):
    def __init__(self, dim, heads, rotary):
        super().__init__()
        self.heads = heads
        self.rotary = rotary
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, h, w, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (rearrange(t, "b y x (n d) -> b n y x d", n=self.heads) for t in (q, k, v))
        freqs = self.rotary.get_axial_freqs(h, w)
        q = apply_rotary_emb(freqs, q)
        k = apply_rotary_emb(freqs, k)
        q, k, v = (rearrange(t, "b n y x d -> b n (y x) d") for t in (q, k, v))
        o = F.scaled_dot_product_attention(q, k, v)
        return self.out(rearrange(o, "b n (y x) d -> b y x (n d)", y=h, x=w))


class IceTransformer(nn.Module):
    def __init__(self, dim=192, depth=3, heads=3):
        super().__init__()
        self.embed = nn.Conv2d(2, dim, PATCH, stride=PATCH)
        rotary = RotaryEmbedding(dim=dim // heads // 2, freqs_for="pixel", max_freq=256)
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            self.layers.append(
                nn.ModuleList(
                    [
                        Attention(dim, heads, rotary),
                        nn.Sequential(
                            nn.LayerNorm(dim), nn.Linear(dim, dim * 4), nn.GELU(), nn.Linear(dim * 4, dim)
                        ),
                    ]
                )
            )
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, len(CLASSES))

    def forward(self, sar_db):
        mean = sar_db.mean(dim=(2, 3), keepdim=True)
        std = sar_db.std(dim=(2, 3), keepdim=True)
        x = (sar_db - mean) / (std + 1e-3)
        x = self.embed(x).permute(0, 2, 3, 1)
        for attn, ff in self.layers:
            x = x + attn(x)
            x = x + ff(x)
        logits = self.head(self.norm(x)).permute(0, 3, 1, 2)
        logits = F.interpolate(logits, scale_factor=PATCH, mode="bilinear", align_corners=False)
        return logits.softmax(dim=1)


def make_scene(h, w, gen):
    floes = F.interpolate(torch.randn(1, 1, h // 24, w // 24, generator=gen), size=(h, w), mode="bicubic")
    cracks = F.interpolate(torch.randn(1, 1, h // 60, w // 12, generator=gen), size=(h, w), mode="bilinear")
    sigma = torch.exp(0.8 * floes - 1.2 * (cracks.abs() < 0.08).float())
    looks = torch.rand(4, 2, h, w, generator=gen).log().neg().mean(0, keepdim=True)
    power = torch.cat([sigma, 0.2 * sigma.sqrt()], dim=1) * looks
    return 10 * torch.log10(power.clamp(min=1e-5))


def tile_origins(size):
    step = TILE - OVERLAP
    return [min(o, size - TILE) for o in range(0, size - OVERLAP, step)]


def chart_scene(model, scene):
    _, _, h, w = scene.shape
    scores = torch.zeros(1, len(CLASSES), h, w)
    weight = torch.zeros(1, 1, h, w)
    tiles = 0
    for y in tile_origins(h):
        for x in tile_origins(w):
            tile = scene[:, :, y : y + TILE, x : x + TILE]
            prob = model(tile)
            th, tw = tile.shape[-2:]
            ramp_y = torch.minimum(torch.arange(1, th + 1), torch.arange(th, 0, -1)).clamp(max=OVERLAP)
            ramp_x = torch.minimum(torch.arange(1, tw + 1), torch.arange(tw, 0, -1)).clamp(max=OVERLAP)
            taper = (ramp_y[:, None] * ramp_x[None, :]).float()
            scores[:, :, y : y + th, x : x + tw] += prob * taper
            weight[:, :, y : y + th, x : x + tw] += taper
            tiles += 1
    return (scores / weight).argmax(dim=1)[0], tiles


@torch.inference_mode()
def main():
    torch.manual_seed(8)
    model = IceTransformer().eval()
    model = torch.compile(model)
    gen = torch.Generator().manual_seed(404)
    total = 0
    area = torch.zeros(len(CLASSES), dtype=torch.long)
    for number, (h, w) in enumerate([(640, 880), (640, 880), (640, 880)]):
        scene = make_scene(h, w, gen)
        chart, tiles = chart_scene(model, scene)
        area += torch.bincount(chart.flatten(), minlength=len(CLASSES))
        total += tiles
        print(f"scene {number}: {w}x{h}, {tiles} tiles, {len(chart.unique())} classes present")
    for name, share in zip(CLASSES, (area / area.sum()).tolist()):
        print(f"  {name:<11s} {100 * share:5.1f} %")
    print("tiles in all:", total)


if __name__ == "__main__":
    main()
