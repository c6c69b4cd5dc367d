"""Trains a shallow torchvision Video Swin transformer with per-block gradient checkpointing and bf16 autocast on random clips."""

from functools import partial

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint
from torchvision.models.video.swin_transformer import SwinTransformer3d


class Checkpointed(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        if self.training:
            return checkpoint(self.inner, x, use_reentrant=False)
        return self.inner(x)


def build(num_classes=50):
    model = SwinTransformer3d(
        patch_size=[2, 4, 4],
        embed_dim=96,
        depths=[2, 2],
        num_heads=[3, 6],
        window_size=[8, 7, 7],
        stochastic_depth_prob=0.0,
        num_classes=num_classes,
        norm_layer=partial(nn.LayerNorm, eps=1e-5),
    )
    stages = []
    for stage in model.features:
        if isinstance(stage, nn.Sequential):
            stages.append(nn.Sequential(*[Checkpointed(b) for b in stage]))
        else:
            stages.append(stage)
    model.features = nn.Sequential(*stages)
    return model


def moving_clips(batch, labels, gen):
    base = torch.randn(batch, 3, 1, 112, 112, device="cuda", generator=gen)
    frames = []
    dx = (labels % 10) - 5
    dy = (labels // 10) - 2
    for t in range(16):
        frame = torch.stack(
            [torch.roll(base[i, :, 0], (int(dy[i]) * t, int(dx[i]) * t), (1, 2)) for i in range(batch)]
        )
        frames.append(frame)
    return torch.stack(frames, 2)


def main():
    torch.manual_seed(8)
    gen = torch.Generator(device="cuda").manual_seed(8)
    model = build().cuda()
    net = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.05)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    losses = []
    for step in range(14):
        labels = torch.randint(0, 50, (4,), device="cuda", generator=gen)
        clips = moving_clips(4, labels.cpu(), gen)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(net(clips), labels)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    peak = torch.cuda.max_memory_allocated() / 2**20
    print("mean loss %.4f" % torch.stack(losses).mean().item())
    print("peak memory below 8 GiB:", peak < 8192)


if __name__ == "__main__":
    main()
