"""Regularised maximum-likelihood imaging of a rotating ring from sparse VLBI visibilities (torchkbnufft)."""

import math
import time

import numpy as np
import torch
import torchkbnufft as tkbn

NPIX = 64
FRAMES = 3
STATIONS = 9
SCANS = 36


def uv_tracks(rng):
    """(u, v) of every baseline of the array while the earth turns, in radians per pixel."""
    pos = rng.normal(size=(STATIONS, 2))
    pos /= np.abs(pos).max()
    pairs = [(i, j) for i in range(STATIONS) for j in range(i + 1, STATIONS)]
    hours = np.linspace(-0.9, 0.9, SCANS)
    u, v = [], []
    for h in hours:
        for i, j in pairs:
            dx, dy = pos[i] - pos[j]
            u.append(math.cos(h) * dx - math.sin(h) * dy)
            v.append(math.sin(0.6) * (math.sin(h) * dx + math.cos(h) * dy))
    omega = np.stack([u, v]) / np.abs([u, v]).max() * math.pi * 0.4
    index = {p: k for k, p in enumerate(pairs)}
    tri = []
    for s in range(SCANS):
        base = s * len(pairs)
        for a in range(STATIONS):
            for b in range(a + 1, STATIONS):
                for c in range(b + 1, STATIONS):
                    tri.append((base + index[a, b], base + index[b, c], base + index[a, c]))
    return torch.tensor(omega, dtype=torch.float32), torch.tensor(tri)


def ring(frame, n=NPIX):
    y, x = torch.meshgrid(torch.linspace(-1, 1, n), torch.linspace(-1, 1, n), indexing="ij")
    r = torch.hypot(x, y)
    ang = torch.atan2(y, x)
    img = torch.exp(-(((r - 0.45) / 0.09) ** 2)) * (1 + 0.7 * torch.cos(ang - 0.5 * frame))
    return img / img.sum()


class Imager(torch.nn.Module):
    def __init__(self, omega, triangles):
        super().__init__()
        self.nufft = tkbn.KbNufft(im_size=(NPIX, NPIX), grid_size=(2 * NPIX, 2 * NPIX), numpoints=4)
        self.register_buffer("omega", omega)
        self.register_buffer("tri", triangles)
        y = torch.linspace(-1, 1, NPIX)
        prior = torch.exp(-2.0 * (y[:, None] ** 2 + y[None, :] ** 2))
        self.register_buffer("prior", prior / prior.sum())
        self.logits = torch.nn.Parameter(torch.log(self.prior).repeat(FRAMES, 1, 1))

    def images(self):
        return torch.softmax(self.logits.flatten(1), 1).view(FRAMES, NPIX, NPIX)

    def visibilities(self, img):
        # frames ride on the coil dimension: the uv coverage is the same for all of them
        return self.nufft(img[None].to(torch.complex64), self.omega)[0]

    def bispectrum(self, vis):
        return vis[:, self.tri[:, 0]] * vis[:, self.tri[:, 1]] * vis[:, self.tri[:, 2]].conj()

    def forward(self, amp, cphase, sigma, weights):
        img = self.images()
        vis = self.visibilities(img)
        chi_amp = (((vis.abs() - amp) / sigma) ** 2).mean()
        bis = self.bispectrum(vis)
        unit = bis / (bis.abs() + 1e-9)
        chi_cp = (
            weights * (1 - (unit * torch.polar(torch.ones_like(cphase), -cphase)).real)
        ).sum() / weights.sum()
        dx = img[:, 1:, :-1] - img[:, :-1, :-1]
        dy = img[:, :-1, 1:] - img[:, :-1, :-1]
        tv = torch.sqrt(dx**2 + dy**2 + 1e-12).sum((1, 2)).mean()
        ent = (img * torch.log(img / self.prior + 1e-12)).sum((1, 2)).mean()
        movie = ((img[1:] - img[:-1]) ** 2).sum() * NPIX**2
        return (
            chi_amp + 60.0 * chi_cp + 0.15 * tv + 0.02 * ent + 0.02 * movie,
            chi_amp.detach(),
            chi_cp.detach(),
        )


def main():
    torch.manual_seed(5)
    omega, tri = uv_tracks(np.random.default_rng(5))
    imager = Imager(omega, tri)
    truth = torch.stack([ring(f) for f in range(FRAMES)])
    with torch.no_grad():
        vis = imager.visibilities(truth)
        noise = 0.01 * vis.abs().max()
        # atmospheric phases are lost, so only amplitudes and closure phases are data
        obs = vis + noise * torch.randn_like(vis)
        amp, bis = obs.abs(), imager.bispectrum(obs)
        cphase, weights = bis.angle(), bis.abs().clamp_max(bis.abs().median())
    objective = torch.compile(imager)
    opt = torch.optim.Adam(imager.parameters(), lr=0.05)
    start = time.perf_counter()
    for it in range(300):
        opt.zero_grad(set_to_none=True)
        loss, ca, cp = objective(amp, cphase, noise, weights)
        loss.backward()
        opt.step()
        if (it + 1) % 100 == 0:
            print(
                f"iter {it + 1:4d} loss {loss.item():.4f} chi2 amp {ca.item():.3f} closure {cp.item():.4f} "
                f"[{time.perf_counter() - start:.1f} s]"
            )
    with torch.no_grad():
        img = imager.images()
        for f in range(FRAMES):
            a = torch.fft.fft2(img[f])
            b = torch.fft.fft2(truth[f])
            cc = torch.fft.ifft2(a * b.conj()).real.max() / (img[f].norm() * truth[f].norm())
            print(f"frame {f}: best shifted correlation with the truth {cc.item():.4f}")


if __name__ == "__main__":
    main()
