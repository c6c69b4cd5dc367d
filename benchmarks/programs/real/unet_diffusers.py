"""Denoising with a small UNet and a scheduler of diffusers."""

import torch
from diffusers import DDIMScheduler, UNet2DModel

torch.manual_seed(0)
unet = UNet2DModel(
    sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(32, 64),
    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    norm_num_groups=8,
).eval()  # fmt: skip
scheduler = DDIMScheduler(num_train_timesteps=100)
scheduler.set_timesteps(12)
unet = torch.compile(unet)
with torch.no_grad():
    for image in range(2):
        sample = torch.randn(2, 3, 16, 16)
        for step in scheduler.timesteps:
            sample = scheduler.step(unet(sample, step).sample, step, sample).prev_sample
        print(image, round(sample.std().item(), 3))
