"""Recover surface reflectance spectra from RGB readings under several LED lights.

Reflectance is a smooth non-negative combination of basis curves; a camera model
predicts every channel under every light, including exposure and vignetting.  The
coefficients of all chart patches are fitted jointly with the exposures.
"""

import time

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(2)

LO, HI, STEP = 400.0, 700.0, 5.0
WAVELENGTHS = torch.arange(LO, HI + 1, STEP)


def bumps(centres, widths):
    d = (WAVELENGTHS[None] - centres[:, None]) / widths[:, None]
    return torch.exp(-0.5 * d * d)


def reflectance_basis(k):
    centres = torch.linspace(LO - 10, HI + 10, k)
    return bumps(centres, torch.full((k,), 1.1 * (HI - LO) / k))


def led_lights(n):
    centres = torch.linspace(425, 675, n)
    widths = torch.linspace(14, 26, n)
    return bumps(centres, widths) + 0.03


def camera_curves():
    rgb = bumps(torch.tensor([600.0, 540.0, 460.0]), torch.tensor([38.0, 36.0, 30.0]))
    side = bumps(torch.tensor([450.0, 620.0, 520.0]), torch.tensor([20.0, 30.0, 25.0]))
    curves = rgb + 0.08 * side
    return curves / curves.sum(1, keepdim=True)


class SpectralFit(nn.Module):
    def __init__(self, patches, basis, lights, camera):
        super().__init__()
        self.raw = nn.Parameter(torch.full((patches, basis.shape[0]), -1.0))
        self.log_exposure = nn.Parameter(torch.zeros(lights.shape[0]))
        self.vignette = nn.Parameter(torch.zeros(2))
        self.register_buffer("basis", basis)
        self.register_buffer("lights", lights)
        self.register_buffer("camera", camera)
        second = torch.diff(torch.eye(basis.shape[0]), n=2, dim=0)
        self.register_buffer("rough", second)

    def coefficients(self):
        return F.softplus(self.raw)

    def predict(self, radius2):
        coef = self.coefficients()
        rgb = torch.einsum("pk,ks,ls,cs->plc", coef, self.basis, self.lights, self.camera)
        fall = 1.0 + self.vignette[0] * radius2 + self.vignette[1] * radius2**2
        return rgb * self.log_exposure.exp()[None, :, None] * fall[:, None, None], coef

    def forward(self, readings, radius2, clip=1.2):
        rgb, coef = self.predict(radius2)
        valid = (readings < clip).float()
        resid = (rgb - readings) * valid
        data = F.huber_loss(resid, torch.zeros_like(resid), delta=0.05, reduction="sum") / valid.sum()
        smooth = (coef @ self.rough.T).pow(2).mean()
        anchor = self.log_exposure.mean().pow(2)
        return 1e3 * data + 2e-3 * smooth + anchor


def synthetic_chart(patches, basis, lights, camera, seed=4):
    g = torch.Generator().manual_seed(seed)
    knots = torch.rand(patches, 6, generator=g) ** 1.5
    coef = F.interpolate(knots[:, None], size=basis.shape[0], mode="linear", align_corners=True)[:, 0]
    coef = 0.45 * coef
    exposure = torch.exp(0.15 * torch.randn(lights.shape[0], generator=g))
    exposure = exposure / exposure.log().mean().exp()
    radius2 = torch.rand(patches, generator=g)
    stimulus = ((coef @ basis)[:, None] * lights[None]) @ camera.T
    rgb = stimulus * exposure[None, :, None] * (1 - 0.25 * radius2)[:, None, None]
    rgb = rgb + 0.002 * torch.randn(rgb.shape, generator=g)
    return rgb, radius2, coef @ basis


def spectral_rmse(model, truth):
    with torch.no_grad():
        return (model.coefficients() @ model.basis - truth).pow(2).mean().sqrt().item()


def main():
    torch.manual_seed(0)
    basis, lights, camera = reflectance_basis(12), led_lights(10), camera_curves()
    readings, radius2, truth = synthetic_chart(5000, basis, lights, camera)

    model = SpectralFit(5000, basis, lights, camera)
    opt = torch.optim.Adam(model.parameters(), lr=0.06)

    @torch.compile
    def objective():
        return model(readings, radius2)

    start_rmse = spectral_rmse(model, truth)
    times = []
    for step in range(110):
        t0 = time.perf_counter()
        loss = objective()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step >= 5:
            times.append(time.perf_counter() - t0)
        if step % 40 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    rmse = spectral_rmse(model, truth)
    print(f"spectral rmse {start_rmse:.4f} -> {rmse:.4f}")
    assert rmse < 0.5 * start_rmse
    print(f"time per step: {1e3 * sum(times) / len(times):.2f} ms")


if __name__ == "__main__":
    main()
