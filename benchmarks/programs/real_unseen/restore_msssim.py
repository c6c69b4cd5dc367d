"""Restores an image by minimising 1 - MS-SSIM."""

import torch
from pytorch_msssim import ms_ssim

torch.manual_seed(0)
target = torch.rand(1, 3, 200, 240)
image = (target + 0.3 * torch.randn_like(target)).clamp(0, 1).requires_grad_()
loss_fn = torch.compile(lambda a, b: 1 - ms_ssim(a, b, data_range=1.0))
opt = torch.optim.Adam([image], 0.01)
for i in range(40):
    loss = loss_fn(image, target)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(f"{loss.item():.5f}")
