"""Delay-and-sum beamforming of plane-wave ultrasound into a B-mode image."""

import torch

dev = "cuda"
torch.manual_seed(0)
angles, elements, samples = 3, 128, 2048
rf = torch.randn(angles, elements, samples, device=dev)
elem_x = torch.linspace(-0.019, 0.019, elements, device=dev)
tilt = torch.deg2rad(torch.tensor([-8.0, 0.0, 8.0], device=dev))
gz, gx = torch.meshgrid(
    torch.linspace(0.005, 0.04, 256, device=dev),
    torch.linspace(-0.019, 0.019, 192, device=dev),
    indexing="ij",
)
px, pz = gx.reshape(-1), gz.reshape(-1)
c, fs = 1540.0, 31.25e6


def beamform(rf, px, pz, elem_x, tilt):
    tx = pz[None] * torch.cos(tilt)[:, None] + px[None] * torch.sin(tilt)[:, None]
    off = px[:, None] - elem_x[None]
    rx = torch.sqrt(off**2 + pz[:, None] ** 2)
    pos = ((tx[:, :, None] + rx[None]) / c * fs).clamp(0, samples - 2)
    i0 = pos.long()
    frac = pos - i0
    a = torch.arange(angles, device=rf.device)[:, None, None]
    e = torch.arange(elements, device=rf.device)
    val = rf[a, e, i0] * (1 - frac) + rf[a, e, i0 + 1] * frac
    apod = torch.exp(-2.0 * (off / (0.5 * pz[:, None])) ** 2)
    line = (val * apod).sum(-1).mean(0)
    return 20 * torch.log10(line.abs() + 1e-6)


fast = torch.compile(beamform)
with torch.no_grad():
    for _ in range(40):
        image = fast(rf, px, pz, elem_x, tilt)
print(image.mean().item())
