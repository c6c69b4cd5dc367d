"""Trains a Perceiver on Doppler radar range-time maps of a slope to tell avalanches from traffic and snowfall."""

import torch
import torch.nn as nn
from perceiver_pytorch import Perceiver

RANGES, FRAMES, DOPPLER = 24, 32, 4
CLASSES = 4


def radar_maps(n, g):
    r = torch.arange(RANGES).view(1, RANGES, 1)
    t = torch.arange(FRAMES).view(1, 1, FRAMES)
    label = torch.randint(0, CLASSES, (n,), generator=g)
    start = torch.randint(0, 12, (n, 1, 1), generator=g)
    speed = 0.8 + 0.9 * torch.rand(n, 1, 1, generator=g)
    noise = 0.5 * torch.randn(n, RANGES, FRAMES, DOPPLER, generator=g)

    front = RANGES - speed * (t - start)
    slide = torch.exp(-(((r - front) / 2.5) ** 2)) * (t >= start)
    road = torch.exp(-(((r - 18) / 1.0) ** 2)) * (torch.sin(t * speed) > 0.6)
    snow = torch.rand(n, RANGES, FRAMES, generator=g) * 0.8
    kind = label.view(n, 1, 1)
    echo = torch.where(kind == 1, slide, torch.where(kind == 2, road.expand(n, -1, -1), snow))
    echo = echo * (kind > 0)
    band = torch.tensor([0.2, 0.5, 1.0, 0.6])
    shift = torch.where(kind == 1, 1.0, 0.4).unsqueeze(-1)
    return noise + 4.0 * echo.unsqueeze(-1) * band**shift, label


class SlopeWatcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.perceiver = Perceiver(
            input_channels=DOPPLER,
            input_axis=2,
            num_freq_bands=6,
            max_freq=10.0,
            depth=2,
            num_latents=48,
            latent_dim=96,
            cross_heads=1,
            latent_heads=4,
            cross_dim_head=32,
            latent_dim_head=24,
            num_classes=CLASSES,
            attn_dropout=0.05,
            ff_dropout=0.05,
            weight_tie_layers=True,
            self_per_cross_attn=1,
        )

    def forward(self, maps):
        power = maps.clamp_min(0).log1p()
        power = power - power.mean((1, 2), keepdim=True)
        return self.perceiver(power)


def main():
    torch.set_num_threads(2)
    torch.manual_seed(9)
    g = torch.Generator().manual_seed(9)
    maps, labels = radar_maps(480, g)
    test_maps, test_labels = radar_maps(64, g)

    model = SlopeWatcher()
    model.compile()
    steps = 60
    batch = 8
    opt = torch.optim.AdamW(model.parameters(), lr=8e-4, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=8e-4, total_steps=steps)

    model.train()
    running = 0.0
    for step in range(steps):
        idx = torch.randint(0, len(maps), (batch,), generator=g)
        logits = model(maps[idx])
        loss = nn.functional.cross_entropy(logits, labels[idx])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        running += loss.item()
        if (step + 1) % 30 == 0:
            print(f"step {step + 1}: loss {running / 30:.3f}")
            running = 0.0

    model.eval()
    hits = torch.zeros(CLASSES)
    seen = torch.zeros(CLASSES)
    with torch.no_grad():
        for x, y in zip(test_maps.split(batch), test_labels.split(batch)):
            pred = model(x).argmax(-1)
            seen += torch.bincount(y, minlength=CLASSES)
            hits += torch.bincount(y[pred == y], minlength=CLASSES)
    print("recall per class", [round(v, 2) for v in (hits / seen.clamp_min(1)).tolist()])


if __name__ == "__main__":
    main()
