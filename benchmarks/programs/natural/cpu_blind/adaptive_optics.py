"""Closed-loop adaptive optics: Shack-Hartmann sensor, zonal DM, leaky integrator.

Several independent atmospheres are run side by side to get statistics of the Strehl ratio.
"""

import math
import time

import torch
import torch.nn as nn

NSUB = 16  # subapertures across
PIX = 8  # pupil pixels per subaperture
NP = NSUB * PIX
NACT = NSUB + 1
SCREEN = 512


def kolmogorov_screen(n, r0_pix, batch, gen):
    f = torch.fft.fftfreq(n)
    k = torch.sqrt(f[:, None] ** 2 + f[None, :] ** 2)
    k[0, 0] = 1.0
    amp = math.sqrt(0.023) * r0_pix ** (-5 / 6) * k ** (-11 / 6)
    amp[0, 0] = 0
    z = torch.complex(torch.randn(batch, n, n, generator=gen), torch.randn(batch, n, n, generator=gen))
    return torch.fft.ifft2(z * amp).real * n


def circular_pupil():
    c = torch.arange(NP) - (NP - 1) / 2
    r = torch.sqrt(c[:, None] ** 2 + c[None, :] ** 2) / (NP / 2)
    return ((r < 1.0) & (r > 0.2)).float()


def influence_functions():
    """Gaussian bumps on the Fried grid: (NACT*NACT, NP*NP), kept separable."""
    pos = torch.arange(NACT) * PIX
    c = torch.arange(NP) + 0.5
    g = torch.exp(-(((c[None, :] - pos[:, None]) / (0.75 * PIX)) ** 2))
    return g


class AOSystem(nn.Module):
    def __init__(self, gain=0.45, leak=0.99, photons=150.0, read_noise=1.5):
        super().__init__()
        self.gain, self.leak = gain, leak
        self.photons, self.read_noise = photons, read_noise
        self.register_buffer("pupil", circular_pupil())
        self.register_buffer("g", influence_functions())
        flux = self.split(self.pupil[None]).sum((-1, -2))[0]
        self.register_buffer("valid", flux > 0.5 * PIX * PIX)
        n = 2 * PIX
        lin = torch.arange(n) - n / 2
        self.register_buffer("cx", lin)
        shift = torch.arange(PIX) * (math.pi / n)
        self.register_buffer("tilt", torch.exp(-1j * (shift[:, None] + shift[None, :])))

    def split(self, x):
        """(B, NP, NP) -> (B, subapertures, PIX, PIX)"""
        b = x.shape[0]
        x = x.unfold(1, PIX, PIX).unfold(2, PIX, PIX)
        return x.reshape(b, NSUB * NSUB, PIX, PIX)

    def dm(self, cmd):
        c = cmd.view(-1, NACT, NACT)
        return self.g.t() @ c @ self.g

    def spots(self, phase):
        field = self.split(self.pupil * torch.exp(1j * phase)) * self.tilt
        f = torch.fft.fftshift(torch.fft.fft2(field, s=(2 * PIX, 2 * PIX)), dim=(-2, -1))
        inten = f.abs() ** 2
        return inten / (PIX**2 * (2 * PIX) ** 2)

    def detect(self, inten):
        e = torch.poisson(self.photons * inten)
        return e + self.read_noise * torch.randn_like(e)

    def slopes(self, img):
        # threshold at a part of the brightest pixels, then centre of gravity
        top = img.flatten(-2).topk(10, dim=-1).values
        thr = top[..., -1:, None] * 0.5 + self.read_noise
        w = (img - thr).clamp(min=0)
        tot = w.sum((-1, -2)).clamp(min=1e-3)
        sx = (w.sum(-2) * self.cx).sum(-1) / tot
        sy = (w.sum(-1) * self.cx).sum(-1) / tot
        s = torch.cat([sx[:, self.valid], sy[:, self.valid]], dim=1)
        return s

    def calibrate(self):
        """Interaction matrix by pushing the actuators, then a truncated inverse."""
        poke = 0.3
        cmds = torch.eye(NACT * NACT) * poke
        ref = self.slopes(self.spots(torch.zeros(1, NP, NP)) * self.photons)
        rows = []
        for chunk in cmds.split(17):
            rows.append(self.slopes(self.spots(self.dm(chunk)) * self.photons) - ref)
        d = torch.cat(rows) / poke
        self.register_buffer("ref", ref)
        self.register_buffer("recon", torch.linalg.pinv(d, rtol=0.08))

    def step(self, atm, cmd):
        resid = (atm - self.dm(cmd)) * self.pupil
        img = self.detect(self.spots(resid))
        s = self.slopes(img) - self.ref
        cmd = self.leak * cmd + self.gain * (s @ self.recon)
        var = self.piston_free_variance(resid)
        return cmd, torch.exp(-var), s.square().mean(1).sqrt()

    def piston_free_variance(self, phase):
        a = self.pupil.sum()
        m = phase.sum((1, 2)) / a
        d = (phase - m[:, None, None]) * self.pupil
        return d.square().sum((1, 2)) / a


def wind_window(layers, k, speeds):
    """Frozen flow: sum of the layers seen through the pupil at frame k (sub-pixel shifts)."""
    out = 0
    for screen, (vx, vy) in zip(layers, speeds):
        ox, oy = vx * k, vy * k
        ix, iy = int(ox), int(oy)
        fx, fy = ox - ix, oy - iy
        win = torch.roll(screen, (-iy, -ix), dims=(1, 2))[:, : NP + 1, : NP + 1]
        a = win[:, :-1, :-1] * (1 - fx) + win[:, :-1, 1:] * fx
        b = win[:, 1:, :-1] * (1 - fx) + win[:, 1:, 1:] * fx
        out = out + a * (1 - fy) + b * fy
    return out


def main(batch=3, frames=180):
    torch.set_num_threads(2)
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(21)
    layers = [kolmogorov_screen(SCREEN, r0, batch, gen) for r0 in (14.0, 22.0)]
    speeds = [(0.8, 0.1), (0.35, 1.3)]
    ao = AOSystem()
    with torch.no_grad():
        ao.calibrate()
    step = torch.compile(ao.step, mode="reduce-overhead")

    cmd = torch.zeros(batch, NACT * NACT)
    strehl, dts = [], []
    with torch.no_grad():
        for k in range(frames):
            atm = wind_window(layers, k, speeds)
            t0 = time.perf_counter()
            cmd, s, rms = step(atm, cmd)
            dts.append(time.perf_counter() - t0)
            strehl.append(s)
            if k % 45 == 0:
                print(f"frame {k:4d}  S {s.mean():.3f}  slope rms {rms.mean():.3f} px")
    strehl = torch.stack(strehl)
    open_loop = torch.exp(-ao.piston_free_variance(atm * ao.pupil)).mean()
    print(
        f"open loop S {open_loop:.2e}; closed loop S {strehl[60:].mean():.4f} +- {strehl[60:].mean(0).std():.4f}"
    )
    print(f"stroke rms {cmd.std():.3f} rad, median frame {1e3 * sorted(dts)[len(dts) // 2]:.2f} ms")


if __name__ == "__main__":
    main()
