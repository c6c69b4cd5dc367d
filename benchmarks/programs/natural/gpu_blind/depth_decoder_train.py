"""Trains the multi-scale decoder of a monocular depth network on fixed encoder features."""

import torch
import torch.nn as nn
import torch.nn.functional as F

dev = "cuda"
torch.manual_seed(0)
widths, batch, h, w = [256, 128, 64, 32, 16], 8, 12, 40
feats = [torch.randn(batch, c, h * 2**i, w * 2**i, device=dev) for i, c in enumerate(widths[:-1])]
full = (h * 16, w * 16)
truth = torch.rand(batch, 1, *full, device=dev) * 0.9 + 0.05


class DepthDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in zip(widths, widths[1:]))
        skips = widths[1:-1] + [0]
        self.mix = nn.ModuleList(nn.Conv2d(b + s, b, 3, padding=1) for b, s in zip(widths[1:], skips))
        self.disp = nn.ModuleList(nn.Conv2d(b, 1, 3, padding=1) for b in widths[1:])

    def forward(self, feats):
        x, outs = feats[0], []
        for i, (up, mix, disp) in enumerate(zip(self.up, self.mix, self.disp)):
            x = F.elu(up(x))
            x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            if i + 1 < len(feats):
                x = torch.cat([x, feats[i + 1]], 1)
            x = F.elu(mix(x))
            outs.append(torch.sigmoid(disp(x)))
        return outs


def loss_fn(model, feats, truth):
    loss = 0.0
    for d in model(feats):
        d = F.interpolate(d, size=full, mode="bilinear", align_corners=False)
        smooth = (d[..., 1:] - d[..., :-1]).abs().mean() + (d[..., 1:, :] - d[..., :-1, :]).abs().mean()
        loss = loss + (d.log() - truth.log()).abs().mean() + 0.1 * smooth
    return loss


model = DepthDecoder().to(dev)
fast = torch.compile(loss_fn)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(40):
    opt.zero_grad(set_to_none=True)
    loss = fast(model, feats, truth)
    loss.backward()
    opt.step()
print(loss.item())
