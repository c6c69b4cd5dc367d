"""Registers two images by a homography, coarse to fine, with kornia."""

import time

import kornia as K
import torch
import torch.nn.functional as F

torch.manual_seed(0)
torch.set_num_threads(2)

HEIGHT, WIDTH, LEVELS = 192, 256, 2
ITERS = 12


def scene():
    g = torch.Generator().manual_seed(4)
    noise = torch.rand(1, 3, HEIGHT // 16, WIDTH // 16, generator=g)
    img = F.interpolate(noise, (HEIGHT, WIDTH), mode="bicubic", align_corners=False)
    return K.filters.gaussian_blur2d(img, (9, 9), (2.0, 2.0)).clamp(0, 1)


class Homography(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.delta = torch.nn.Parameter(torch.zeros(1, 3, 3))

    def forward(self):
        m = torch.eye(3)[None] + self.delta
        return m / m[..., 2:, 2:]


@torch.compile(dynamic=False)
def registration_loss(homography, src, dst):
    h, w = dst.shape[-2:]
    warped = K.geometry.transform.homography_warp(
        src, homography, (h, w), mode="bilinear", padding_mode="zeros", align_corners=True
    )
    ones = K.geometry.transform.homography_warp(
        torch.ones_like(src), homography, (h, w), mode="bilinear", padding_mode="zeros", align_corners=True
    )
    mask = (ones > 0.9).float()
    l1 = ((warped - dst).abs() * mask).sum() / mask.sum().clamp(min=1.0)
    ssim = (K.losses.ssim_loss(warped, dst, 5, reduction="none") * mask).mean()
    return 0.8 * l1 + 0.2 * ssim


def register(src, dst, times):
    model = Homography()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    pyr_src = K.geometry.transform.build_pyramid(src, LEVELS)
    pyr_dst = K.geometry.transform.build_pyramid(dst, LEVELS)
    for level in reversed(range(LEVELS)):
        for _ in range(ITERS):
            t0 = time.perf_counter()
            opt.zero_grad()
            loss = registration_loss(model(), pyr_src[level], pyr_dst[level])
            loss.backward()
            opt.step()
            times.append((level, time.perf_counter() - t0))
        for group in opt.param_groups:
            group["lr"] *= 0.6
    return model().detach(), loss.item()


def main():
    src = scene()
    true = torch.tensor([[[0.97, 0.06, 0.05], [-0.05, 1.02, -0.04], [0.01, -0.01, 1.0]]])
    dst = K.geometry.transform.homography_warp(src, true, (HEIGHT, WIDTH), align_corners=True)

    t0 = time.perf_counter()
    register(src, dst, [])
    print(f"warm-up {time.perf_counter() - t0:.1f} s")

    times = []
    found, loss = register(src, dst, times)
    for level in range(LEVELS):
        own = sorted(t for l, t in times if l == level)
        print(f"level {level}: {own[len(own) // 2] * 1e3:.2f} ms per step")
    print(f"time per step {sum(t for _, t in times) / len(times) * 1e3:.2f} ms")
    print(f"loss {loss:.5f}, homography error {(found - true).abs().max().item():.4f}")


if __name__ == "__main__":
    main()
