"""Sliding-window segmentation of synthetic CT volumes with a MONAI 3-D U-Net."""

import time

import torch
from monai.data import MetaTensor
from monai.inferers import SlidingWindowInferer
from monai.networks.nets import UNet
from monai.transforms import Compose, EnsureChannelFirst, EnsureType, NormalizeIntensity

torch.manual_seed(0)
torch.set_num_threads(2)

ROI = (24, 24, 24)
SIZE = (40, 40, 32)
VOLUMES, WARMUP = 10, 3


def phantom(seed):
    g = torch.Generator().manual_seed(seed)
    z, y, x = torch.meshgrid(*[torch.linspace(-1, 1, n) for n in SIZE], indexing="ij")
    vol = 0.1 * torch.randn(*SIZE, generator=g)
    for _ in range(4):
        c = torch.rand(3, generator=g) * 1.2 - 0.6
        r = 0.15 + 0.2 * torch.rand(1, generator=g)
        vol += ((z - c[0]) ** 2 + (y - c[1]) ** 2 + (x - c[2]) ** 2 < r**2).float()
    return MetaTensor(vol, affine=torch.diag(torch.tensor([1.5, 1.5, 2.0, 1.0], dtype=torch.float64)))


prepare = Compose(
    [
        EnsureChannelFirst(channel_dim="no_channel"),
        NormalizeIntensity(nonzero=True),
        EnsureType(),
    ]
)

net = UNet(
    spatial_dims=3,
    in_channels=1,
    out_channels=3,
    channels=(8, 16, 32),
    strides=(2, 2),
    num_res_units=2,
    norm="instance",
).eval()
net = torch.compile(net)
infer = SlidingWindowInferer(roi_size=ROI, sw_batch_size=4, overlap=0.25, mode="gaussian")


@torch.inference_mode()
def segment(volume):
    image = prepare(volume).unsqueeze(0)
    logits = infer(image, net)
    return logits.argmax(dim=1)


def main():
    t0 = time.perf_counter()
    for i in range(WARMUP):
        segment(phantom(100 + i))
    print(f"warm-up {time.perf_counter() - t0:.1f} s")
    times, counts = [], torch.zeros(3, dtype=torch.long)
    for i in range(VOLUMES):
        volume = phantom(i)
        t0 = time.perf_counter()
        labels = segment(volume)
        times.append(time.perf_counter() - t0)
        counts += torch.bincount(torch.as_tensor(labels).as_subclass(torch.Tensor).flatten(), minlength=3)
    times.sort()
    print(f"time per step {times[len(times) // 2] * 1e3:.2f} ms (one volume)")
    print(f"class voxels {counts.tolist()}")


if __name__ == "__main__":
    main()
