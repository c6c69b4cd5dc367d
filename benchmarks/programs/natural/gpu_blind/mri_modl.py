"""Unrolled model-based MRI reconstruction (MoDL): a shared residual CNN
denoiser alternating with conjugate-gradient data consistency, trained
end-to-end on undersampled multi-coil k-space of synthetic phantoms."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1"))

SIZE = max(32, int(320 * SCALE) // 16 * 16)
COILS = 12 if SCALE >= 0.5 else 4
BATCH = 2
UNROLLS = 5
CG_STEPS = 6
WIDTH = 64 if SCALE >= 0.5 else 16


def fft2c(x):
    x = torch.fft.ifftshift(x, dim=(-2, -1))
    x = torch.fft.fft2(x, norm="ortho")
    return torch.fft.fftshift(x, dim=(-2, -1))


def ifft2c(x):
    x = torch.fft.ifftshift(x, dim=(-2, -1))
    x = torch.fft.ifft2(x, norm="ortho")
    return torch.fft.fftshift(x, dim=(-2, -1))


class Sense:
    """Multi-coil Cartesian encoding operator."""

    def __init__(self, maps, mask):
        self.maps, self.mask = maps, mask

    def forward(self, image):
        return self.mask * fft2c(self.maps * image[:, None])

    def adjoint(self, kspace):
        return (self.maps.conj() * ifft2c(self.mask * kspace)).sum(1)

    def normal(self, image):
        return self.adjoint(self.forward(image))


def inner(a, b):
    return (a.conj() * b).sum(dim=(-2, -1), keepdim=True).real


def conjugate_gradient(op, rhs, lam, steps):
    x = torch.zeros_like(rhs)
    r = rhs
    p = r
    rr = inner(r, r)
    for _ in range(steps):
        ap = op.normal(p) + lam * p
        alpha = rr / inner(p, ap)
        x = x + alpha * p
        r = r - alpha * ap
        rr_new = inner(r, r)
        p = r + (rr_new / rr) * p
        rr = rr_new
    return x


class Denoiser(nn.Module):
    def __init__(self, width, depth=5):
        super().__init__()
        layers = [nn.Conv2d(2, width, 3, padding=1), nn.ReLU()]
        for _ in range(depth - 2):
            layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        layers.append(nn.Conv2d(width, 2, 3, padding=1))
        self.net = nn.Sequential(*layers)

    def forward(self, image):
        x = torch.view_as_real(image).permute(0, 3, 1, 2)
        x = x + self.net(x)
        return torch.view_as_complex(x.permute(0, 2, 3, 1).contiguous())


class MoDL(nn.Module):
    def __init__(self):
        super().__init__()
        self.denoiser = Denoiser(WIDTH)
        self.log_lam = nn.Parameter(torch.tensor(-3.0))

    def forward(self, kspace, maps, mask):
        op = Sense(maps, mask)
        zero_filled = op.adjoint(kspace)
        lam = F.softplus(self.log_lam)
        x = zero_filled
        for _ in range(UNROLLS):
            z = self.denoiser(x)
            x = conjugate_gradient(op, zero_filled + lam * z, lam, CG_STEPS)
        return x


def coil_maps(batch, coils, size):
    axis = torch.linspace(-1, 1, size)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    angle = torch.arange(coils) * (2 * torch.pi / coils)
    cy, cx = 1.2 * torch.sin(angle), 1.2 * torch.cos(angle)
    d2 = (yy - cy[:, None, None]) ** 2 + (xx - cx[:, None, None]) ** 2
    maps = torch.polar(torch.exp(-0.7 * d2), 1.5 * xx * cy[:, None, None] + yy)
    maps = maps / maps.abs().pow(2).sum(0, keepdim=True).sqrt()
    return maps[None].expand(batch, -1, -1, -1).contiguous()


def phantoms(batch, size):
    axis = torch.linspace(-1, 1, size)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    image = torch.zeros(batch, size, size)
    for b in range(batch):
        for _ in range(14):
            cy, cx = (torch.rand(2) - 0.5).tolist()
            ay, ax = (0.08 + 0.4 * torch.rand(2)).tolist()
            inside = ((yy - cy) / ay) ** 2 + ((xx - cx) / ax) ** 2 < 1
            image[b] += inside * float(torch.rand(()))
    return torch.polar(image / image.amax(), 0.4 * (xx + yy).expand_as(image))


def sampling_mask(size, acceleration=4):
    keep = torch.rand(size) < 1.0 / acceleration
    centre = size // 12
    keep[size // 2 - centre // 2 : size // 2 + centre // 2 + 1] = True
    return keep.float()[None, None, None, :]


def main():
    torch.manual_seed(3)
    maps = coil_maps(BATCH, COILS, SIZE).to(DEVICE)
    truth = [phantoms(BATCH, SIZE).to(DEVICE) for _ in range(4)]
    mask = sampling_mask(SIZE).to(DEVICE)
    op = Sense(maps, mask)
    scans = [op.forward(t) for t in truth]
    scans = [k + 0.005 * torch.randn_like(k) * mask for k in scans]

    model = MoDL().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    recon = torch.compile(model)

    def step(i):
        out = recon(scans[i % 4], maps, mask)
        loss = F.l1_loss(torch.view_as_real(out), torch.view_as_real(truth[i % 4]))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for i in range(3):
        first = step(i)
    first = float(first)
    begin = time.perf_counter()
    iters = 20
    for i in range(iters):
        loss = step(i)
    final = float(loss)
    took = time.perf_counter() - begin
    print(f"{SIZE}x{SIZE}, {COILS} coils: {1e3 * took / iters:.1f} ms/step")
    print(f"l1 {first:.5f} -> {final:.5f}, lambda {float(F.softplus(model.log_lam.detach())):.4f}")


if __name__ == "__main__":
    main()
