"""Pansharpening of satellite tiles with MTF-matched generalised Laplacian pyramid.

Four multispectral bands at 1/4 of the panchromatic resolution are sharpened with
context-adaptive injection gains (GLP-CBD).  Every tile goes from 12 bit digital
numbers to a uint16 sharpened product and an 8 bit quicklook; quality is reported
as SAM and ERGAS after degrading the product back to the MS grid (consistency).
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(21)

RATIO = 4
MTF_NYQUIST = [0.32, 0.30, 0.29, 0.24]  # blue, green, red, nir
PAN_MTF = 0.15
TAPS = 33


def gaussian_mtf_kernel(gain, taps=TAPS, ratio=RATIO):
    """Low-pass kernel whose frequency response is `gain` at the MS Nyquist frequency."""
    fcut = 0.5 / ratio
    sigma_f = math.sqrt(-(fcut**2) / (2.0 * math.log(gain)))
    sigma = 1.0 / (2.0 * math.pi * sigma_f)
    t = torch.arange(taps, dtype=torch.float32) - taps // 2
    g = torch.exp(-0.5 * (t / sigma) ** 2)
    k = g[:, None] * g[None, :]
    return k / k.sum()


class Pansharpener(nn.Module):
    def __init__(self, window=11):
        super().__init__()
        self.window = window
        self.register_buffer("kernel", torch.stack([gaussian_mtf_kernel(g) for g in MTF_NYQUIST])[:, None])
        self.register_buffer("solar", torch.tensor([1930.0, 1854.0, 1559.0, 1060.0]).view(1, 4, 1, 1))
        self.register_buffer("gain", torch.tensor([0.0180, 0.0165, 0.0142, 0.0131]).view(1, 4, 1, 1))

    def reflectance(self, dn, sun_elev):
        radiance = dn.to(torch.float32) * self.gain * 100.0
        return math.pi * radiance / (self.solar * math.sin(math.radians(sun_elev)))

    def box(self, x):
        p = self.window // 2
        return F.avg_pool2d(F.pad(x, (p, p, p, p), mode="replicate"), self.window, stride=1)

    def lowpass(self, x, groups):
        p = TAPS // 2
        return F.conv2d(F.pad(x, (p, p, p, p), mode="reflect"), self.kernel, groups=groups)

    def match(self, pan, ms_up):
        mu_p, sd_p = pan.mean((2, 3), keepdim=True), pan.std((2, 3), keepdim=True)
        mu_m = ms_up.mean((2, 3), keepdim=True)
        sd_m = ms_up.std((2, 3), keepdim=True)
        return (pan - mu_p) / sd_p * sd_m + mu_m

    def forward(self, pan_dn, ms_dn, sun_elev):
        ms = self.reflectance(ms_dn, sun_elev)
        size = pan_dn.shape[-2:]
        ms_up = F.interpolate(ms, size=size, mode="bicubic", align_corners=False)
        pan = pan_dn.to(torch.float32).expand(-1, 4, -1, -1)
        pan = self.match(pan, ms_up)
        low = self.lowpass(pan, groups=4)[..., 2::RATIO, 2::RATIO]
        low = F.interpolate(low, size=size, mode="bicubic", align_corners=False)

        m_m, m_l = self.box(ms_up), self.box(low)
        cov = self.box(ms_up * low) - m_m * m_l
        var_l = self.box(low * low) - m_l**2
        var_m = self.box(ms_up * ms_up) - m_m**2
        corr = cov / torch.sqrt((var_l * var_m).clamp(min=1e-12))
        g = torch.where(corr > 0.4, cov / var_l.clamp(min=1e-9), torch.zeros_like(cov))
        sharp = ms_up + g.clamp(0.0, 3.0) * (pan - low)

        product = (sharp.clamp(0, 1.5) * 10000).round().to(torch.uint16)
        rgb = sharp[:, [2, 1, 0]]
        flat = rgb.flatten(2)
        lo = torch.quantile(flat, 0.02, dim=2)[..., None, None]
        hi = torch.quantile(flat, 0.98, dim=2)[..., None, None]
        look = ((rgb - lo) / (hi - lo + 1e-6)).clamp(0, 1).pow(1 / 1.8)
        look = (look * 255).to(torch.uint8)

        back = self.lowpass(sharp, groups=4)[..., 2::RATIO, 2::RATIO]
        cos = (back * ms).sum(1) / (back.norm(dim=1) * ms.norm(dim=1) + 1e-9)
        sam = torch.rad2deg(torch.acos(cos.clamp(-1, 1))).mean()
        rmse2 = ((back - ms) ** 2).mean((2, 3))
        ergas = 100.0 / RATIO * torch.sqrt((rmse2 / ms.mean((2, 3)) ** 2).mean())
        return product, look, sam, ergas


def synth_tile(h, w):
    """A field mosaic with roads, as 12 bit numbers."""
    coarse = torch.rand(1, 4, h // 32 + 1, w // 32 + 1)
    scene = F.interpolate(coarse, size=(h, w), mode="nearest") * 0.6 + 0.2
    for _ in range(6):
        r = int(torch.randint(0, h - 4, ()))
        c = int(torch.randint(0, w - 4, ()))
        scene[..., r : r + 3, :] = 0.75
        scene[..., :, c : c + 3] = 0.70
    scene = scene + 0.02 * torch.randn(1, 4, h, w)
    ms = F.avg_pool2d(scene, RATIO)
    pan = (scene * torch.tensor([0.15, 0.3, 0.3, 0.25]).view(1, 4, 1, 1)).sum(1, keepdim=True)
    to_dn = lambda x: (x * 3000).clamp(0, 4095).to(torch.int16)
    return to_dn(pan), to_dn(ms)


def main():
    model = Pansharpener().eval()
    sharpen = torch.compile(model)
    tile_h = [256, 256, 256]
    tile_w = [256, 256, 256, 128]
    sams, ergases, mean_look = [], [], []
    with torch.no_grad():
        for date, elev in enumerate((38.5, 52.0)):
            for h in tile_h:
                for w in tile_w:
                    pan, ms = synth_tile(h, w)
                    product, look, sam, ergas = sharpen(pan, ms, elev)
                    sams.append(sam.item())
                    ergases.append(ergas.item())
                    mean_look.append(look.float().mean().item())
            print(f"date {date}: {len(sams)} tiles done, SAM {sums(sams):.3f} deg, ERGAS {sums(ergases):.3f}")
    print(f"last product {tuple(product.shape)} {product.dtype}, max {int(product.to(torch.int32).max())}")
    print(f"quicklook mean {sums(mean_look):.1f}")


def sums(v):
    return sum(v) / len(v)


if __name__ == "__main__":
    main()
