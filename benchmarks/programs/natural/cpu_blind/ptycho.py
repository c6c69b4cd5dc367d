"""Far-field ptychography: recover a complex object and probe from diffraction
amplitudes by gradient descent on the amplitude loss (Adam, minibatched scan)."""

import math
import time

import torch

N = 96  # detector / probe size
OBJ = 320  # object canvas
STEP = 14  # scan step in pixels
BATCH = 64
EPOCHS = 14


def disc_probe(n, radius, defocus):
    ax = torch.arange(n) - n / 2
    yy, xx = torch.meshgrid(ax, ax, indexing="ij")
    r2 = xx**2 + yy**2
    pupil = (r2 < radius**2).float()
    phase = defocus * r2 / radius**2
    field = torch.polar(pupil, phase)
    p = torch.fft.fftshift(torch.fft.ifft2(torch.fft.ifftshift(field)))
    return p / p.abs().max()


def make_object(size, gen):
    rough = torch.randn(1, 1, size // 8, size // 8, generator=gen)
    fine = torch.randn(1, 1, size // 3, size // 3, generator=gen)
    up = torch.nn.functional.interpolate
    a = up(rough, size=(size, size), mode="bicubic", align_corners=False)[0, 0]
    b = up(fine, size=(size, size), mode="bicubic", align_corners=False)[0, 0]
    amp = 0.7 + 0.3 * torch.sigmoid(a)
    phi = 0.6 * torch.tanh(a + 0.5 * b)
    return torch.polar(amp, phi)


def scan_positions(size, n, step, gen):
    g = torch.arange(2, size - n - 2, step)
    pos = torch.cartesian_prod(g, g)
    jitter = torch.randint(-2, 3, pos.shape, generator=gen)
    return pos + jitter


class Ptycho(torch.nn.Module):
    def __init__(self, size, n, probe0):
        super().__init__()
        obj = torch.ones(size, size, dtype=torch.complex64)
        self.obj = torch.nn.Parameter(torch.view_as_real(obj).clone())
        self.probe = torch.nn.Parameter(torch.view_as_real(probe0).clone())
        self.register_buffer("win", torch.arange(n))

    def forward(self, pos):
        obj = torch.view_as_complex(self.obj)
        probe = torch.view_as_complex(self.probe)
        rows = pos[:, 0, None, None] + self.win[None, :, None]
        cols = pos[:, 1, None, None] + self.win[None, None, :]
        exit_wave = obj[rows, cols] * probe
        far = torch.fft.fft2(exit_wave, norm="ortho")
        return torch.sqrt(far.real**2 + far.imag**2 + 1e-8)


def loss_fn(model, pos, amp):
    pred = model(pos)
    data = ((pred - amp) ** 2).sum(dim=(1, 2)).mean()
    mag = torch.view_as_complex(model.obj).abs()
    return data + 1e-4 * torch.relu(mag - 1.05).square().sum()


def phase_error(model, truth):
    c = slice(60, OBJ - 60)
    est = torch.view_as_complex(model.obj.detach())[c, c]
    ref = truth[c, c]
    corr = (est * ref.conj()).sum()
    est = est * torch.exp(-1j * corr.angle())
    return torch.angle(est * ref.conj()).square().mean().sqrt().item()


def main():
    gen = torch.Generator().manual_seed(5)
    torch.manual_seed(5)
    truth = make_object(OBJ, gen)
    probe = disc_probe(N, 14, 4.0)
    pos = scan_positions(OBJ, N, STEP, gen)
    win = torch.arange(N)
    amps = []
    for p in pos.split(64):
        patch = truth[p[:, 0, None, None] + win[None, :, None], p[:, 1, None, None] + win]
        inten = torch.fft.fft2(patch * probe, norm="ortho").abs().square() * 2000
        amps.append((torch.poisson(inten, generator=gen) / 2000).sqrt())
    amps = torch.cat(amps)
    print(f"{len(pos)} diffraction patterns of {N}x{N}")

    model = Ptycho(OBJ, N, disc_probe(N, 14, 3.5))
    opt = torch.optim.Adam(
        [
            {"params": [model.obj], "lr": 2e-2},
            {"params": [model.probe], "lr": 2e-3},
        ]
    )
    step_loss = torch.compile(loss_fn)

    n = len(pos) - len(pos) % BATCH
    for epoch in range(EPOCHS):
        order = torch.randperm(len(pos), generator=gen)[:n]
        tot, t0 = 0.0, time.perf_counter()
        for idx in order.split(BATCH):
            opt.zero_grad(set_to_none=True)
            loss = step_loss(model, pos[idx], amps[idx])
            loss.backward()
            opt.step()
            tot += loss.item()
        dt = time.perf_counter() - t0
        print(f"epoch {epoch:2d}  loss {tot / (n // BATCH):9.4f}  {n / dt:7.1f} patterns/s")
    print(
        f"phase rms error {phase_error(model, truth):.4f} rad "
        f"({math.degrees(phase_error(model, truth)):.2f} deg)"
    )


if __name__ == "__main__":
    main()
