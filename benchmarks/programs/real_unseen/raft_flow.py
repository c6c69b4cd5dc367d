"""Runs torchvision's small RAFT optical-flow network on synthetic frame pairs and reports flow error and photometric warp error."""

import torch
import torch.nn.functional as F
from torchvision.models.optical_flow import raft_small


def smooth_frames(batch, h, w, gen):
    low = torch.rand(batch, 3, h // 16, w // 16, device="cuda", generator=gen)
    img = F.interpolate(low, size=(h, w), mode="bicubic", align_corners=False)
    img = img + 0.05 * torch.randn(batch, 3, h, w, device="cuda", generator=gen)
    return img.clamp(0, 1) * 2 - 1


def warp(img, flow):
    b, _, h, w = img.shape
    ys, xs = torch.meshgrid(
        torch.arange(h, device=img.device, dtype=img.dtype),
        torch.arange(w, device=img.device, dtype=img.dtype),
        indexing="ij",
    )
    gx = 2 * (xs + flow[:, 0]) / (w - 1) - 1
    gy = 2 * (ys + flow[:, 1]) / (h - 1) - 1
    return F.grid_sample(img, torch.stack([gx, gy], -1), align_corners=True, padding_mode="border")


@torch.compile
def photometric_error(frame1, frame2, flow):
    warped = warp(frame2, flow)
    diff = (warped - frame1).abs()
    mu1, mu2 = F.avg_pool2d(frame1, 3, 1), F.avg_pool2d(warped, 3, 1)
    s1 = F.avg_pool2d(frame1**2, 3, 1) - mu1**2
    s2 = F.avg_pool2d(warped**2, 3, 1) - mu2**2
    s12 = F.avg_pool2d(frame1 * warped, 3, 1) - mu1 * mu2
    ssim = ((2 * mu1 * mu2 + 1e-4) * (2 * s12 + 9e-4)) / ((mu1**2 + mu2**2 + 1e-4) * (s1 + s2 + 9e-4))
    return 0.85 * (1 - ssim).mean() / 2 + 0.15 * diff.mean()


def main():
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    gen = torch.Generator(device="cuda").manual_seed(1)
    model = raft_small(weights=None).cuda().eval()
    compiled = torch.compile(model)
    epe_sum, photo_sum = torch.zeros((), device="cuda"), torch.zeros((), device="cuda")
    steps = 14
    with torch.no_grad():
        for _ in range(steps):
            frame1 = smooth_frames(4, 256, 384, gen)
            shift = torch.empty(4, 2, 1, 1, device="cuda").uniform_(-6, 6, generator=gen)
            true_flow = shift.expand(4, 2, 256, 384)
            frame2 = warp(frame1, -true_flow)
            flows = compiled(frame1, frame2, num_flow_updates=6)
            flow = flows[-1]
            epe_sum += (flow - true_flow).norm(dim=1).mean()
            photo_sum += photometric_error(frame1, frame2, flow)
    print("mean EPE %.4f" % (epe_sum / steps).item())
    print("mean photometric error %.4f" % (photo_sum / steps).item())


if __name__ == "__main__":
    main()
