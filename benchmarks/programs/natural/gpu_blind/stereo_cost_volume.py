"""Stereo matching head: concatenation cost volume over disparities, two-layer matching, soft argmin."""

import torch
import torch.nn as nn

dev = "cuda"
torch.manual_seed(0)
B, C, D, H, W = 2, 32, 24, 136, 240
left = torch.randn(B, C, H, W, device=dev)
right = torch.randn(B, C, H, W, device=dev)


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.reduce = nn.Conv3d(2 * C, 16, 1)
        self.score = nn.Conv3d(16, 1, 1)
        self.register_buffer("disp", torch.arange(D).float().view(1, D, 1, 1))

    def forward(self, l, r):
        vol = l.new_zeros(l.shape[0], 2 * C, D, H, W)
        for d in range(D):
            vol[:, :C, d, :, d:] = l[..., d:]
            vol[:, C:, d, :, d:] = r[..., : W - d]
        s = self.score(torch.relu(self.reduce(vol))).squeeze(1)
        p = torch.softmax(-s, 1)
        return (p * self.disp).sum(1)


net = torch.compile(Matcher().to(dev).eval())
with torch.no_grad():
    for _ in range(40):
        y = net(left, right)
print(y.mean().item())
