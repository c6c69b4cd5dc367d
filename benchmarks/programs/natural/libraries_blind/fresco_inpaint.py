"""Fill the lost parts of a photographed fresco with a sparse cosine model.

The missing pixels (cracks and flaked plaster) are recovered by FISTA on the 2-D DCT coefficients of the
whole picture, with a threshold that is lowered from iteration to iteration.
"""

import math

import torch
import torch.nn.functional as F
import torch_dct

H, W = 432, 576
ITERATIONS = 90


def paint_fresco(gen):
    yy, xx = torch.meshgrid(torch.linspace(0, 1, H), torch.linspace(0, 1, W), indexing="ij")
    img = torch.zeros(3, H, W)
    img += F.interpolate(torch.rand(1, 3, 6, 8, generator=gen), size=(H, W), mode="bicubic")[0]
    for _ in range(14):
        cy, cx, r = torch.rand(3, generator=gen)
        colour = torch.rand(3, 1, 1, generator=gen)
        disc = torch.sigmoid((0.05 + 0.12 * r - ((yy - cy) ** 2 + (xx - cx) ** 2).sqrt()) * 60)
        img = img * (1 - 0.7 * disc) + 0.7 * disc * colour
    img += 0.04 * torch.sin(2 * math.pi * (18 * xx + 5 * yy))
    return img.clamp(0, 1)


def damage_mask(gen):
    mask = torch.ones(H, W)
    for _ in range(40):
        y, x = int(torch.randint(H, (1,), generator=gen)), int(torch.randint(W, (1,), generator=gen))
        angle = float(torch.rand(1, generator=gen)) * 2 * math.pi
        for _ in range(int(torch.randint(60, 260, (1,), generator=gen))):
            angle += 0.25 * float(torch.randn(1, generator=gen))
            y = int(min(max(y + 2 * math.sin(angle), 0), H - 3))
            x = int(min(max(x + 2 * math.cos(angle), 0), W - 3))
            mask[y : y + 3, x : x + 3] = 0
    flakes = F.interpolate(torch.rand(1, 1, H // 9, W // 9, generator=gen), size=(H, W), mode="bilinear")
    mask[flakes[0, 0] > 0.82] = 0
    return mask


def soft_threshold(c, lam):
    return torch.sign(c) * torch.relu(c.abs() - lam)


@torch.compile
def fista_step(z, x_prev, observed, mask, lam, beta):
    """One iteration on pixels z; returns the new iterate, the next search point, and the misfit."""
    residual = mask * (observed - z)
    coeff = torch_dct.dct_2d(z + residual, norm="ortho")
    dc = coeff[:, :1, :1].clone()
    coeff = soft_threshold(coeff, lam)
    coeff[:, :1, :1] = dc
    x = torch_dct.idct_2d(coeff, norm="ortho")
    z_next = x + beta * (x - x_prev)
    misfit = (mask * (observed - x)).pow(2).sum()
    nnz = (coeff != 0).sum()
    return x, z_next, misfit, nnz


def inpaint(observed, mask, lam_start=0.6, lam_end=0.004):
    x = observed.clone()
    z = observed.clone()
    t = 1.0
    history = []
    for it in range(ITERATIONS):
        lam = lam_start * (lam_end / lam_start) ** (it / (ITERATIONS - 1))
        t_next = 0.5 * (1 + math.sqrt(1 + 4 * t * t))
        x, z, misfit, nnz = fista_step(z, x, observed, mask, lam, (t - 1) / t_next)
        t = t_next
        history.append((misfit.item(), nnz.item()))
    return x.clamp(0, 1), history


def psnr(a, b):
    return 10 * math.log10(1.0 / (a - b).pow(2).mean().item())


@torch.no_grad()
def main():
    gen = torch.Generator().manual_seed(77)
    truth = paint_fresco(gen)
    mask = damage_mask(gen)
    noise = 0.01 * torch.randn(truth.shape, generator=gen)
    observed = mask * (truth + noise)
    # start the holes at the mean colour of what is left
    mean = observed.sum((1, 2), keepdim=True) / mask.sum()
    observed = observed + (1 - mask) * mean

    restored, history = inpaint(observed, mask)
    hole = (1 - mask).bool()
    print(f"lost area {100 * hole.float().mean():.1f} %")
    print(f"psnr damaged {psnr(observed, truth):.2f} dB, restored {psnr(restored, truth):.2f} dB")
    print(f"psnr in the holes {psnr(restored[:, hole], truth[:, hole]):.2f} dB")
    for it in (0, 29, 59, ITERATIONS - 1):
        print(f"  iteration {it + 1:3d}: misfit {history[it][0]:.3f}, {history[it][1]} coefficients")


if __name__ == "__main__":
    main()
