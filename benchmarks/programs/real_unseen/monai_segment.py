"""Sliding-window segmentation of a CT volume with MONAI's UNet."""

import torch
from monai.inferers import sliding_window_inference
from monai.networks.nets import UNet

torch.manual_seed(0)
net = UNet(
    spatial_dims=3, in_channels=1, out_channels=2, channels=(16, 32, 64), strides=(2, 2), num_res_units=2
).eval()
net = torch.compile(net)
volume = torch.randn(1, 1, 80, 96, 64)
with torch.no_grad():
    for _ in range(3):
        seg = sliding_window_inference(volume, (48, 48, 48), 2, net, overlap=0.25)
print(seg.argmax(1).float().mean().item())
