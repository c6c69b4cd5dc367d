"""Wideband MVDR beamformer: scan azimuth over a stream of array snapshots."""

import math
import time

import torch

torch.set_num_threads(2)

FS = 16000
C = 343.0
MICS = 12
NFFT = 512
HOP = 256
FRAMES = 64
BLOCK = NFFT + HOP * (FRAMES - 1)
AZ = torch.arange(0, 360, 3) * math.pi / 180
BINS = slice(12, 140)
BLOCKS = 40


def array_geometry(radius=0.08):
    phi = torch.arange(MICS) * 2 * math.pi / MICS
    return radius * torch.stack([phi.cos(), phi.sin()], dim=-1)


def steering(mics, freqs, az):
    direction = torch.stack([az.cos(), az.sin()], dim=-1)
    tau = direction @ mics.T / C  # (A, M)
    return torch.exp(2j * math.pi * freqs[:, None, None] * tau)  # (F, A, M)


def synth_block(mics, az_deg, gen):
    """Two moving sources plus sensor noise, fractional delays in frequency."""
    n = BLOCK
    f = torch.fft.rfftfreq(n, 1 / FS)
    out = 0.15 * torch.randn(MICS, n, generator=gen)
    for deg, gain in zip(az_deg, (1.0, 0.6)):
        src = torch.fft.rfft(torch.randn(n, generator=gen))
        a = deg * math.pi / 180
        tau = mics @ torch.tensor([math.cos(a), math.sin(a)]) / C
        delayed = src * torch.exp(2j * math.pi * f * tau[:, None])
        out += gain * torch.fft.irfft(delayed, n=n)
    return out


class Beamformer:
    def __init__(self, mics, loading=1e-2, forget=0.7):
        self.window = torch.hann_window(NFFT)
        freqs = torch.fft.rfftfreq(NFFT, 1 / FS)[BINS]
        self.sv = steering(mics, freqs, AZ)
        self.cov = torch.eye(MICS, dtype=torch.cfloat).repeat(len(freqs), 1, 1)
        self.loading = loading
        self.forget = forget

    @torch.compile
    def spectrum(self, x, cov):
        spec = torch.stft(x, NFFT, HOP, window=self.window, center=False, return_complex=True)
        spec = spec[:, BINS].permute(1, 0, 2)  # (F, M, T)
        inst = spec @ spec.conj().transpose(1, 2) / spec.shape[-1]
        cov = self.forget * cov + (1 - self.forget) * inst
        power = torch.diagonal(cov, dim1=1, dim2=2).real.mean(-1)
        eye = torch.eye(MICS, dtype=cov.dtype)
        loaded = cov + self.loading * power[:, None, None] * eye
        inv = torch.linalg.inv(loaded)
        quad = torch.einsum("fam,fmn,fan->fa", self.sv.conj(), inv, self.sv).real
        mvdr = MICS / quad.clamp(min=1e-9)
        norm = mvdr / mvdr.sum(dim=1, keepdim=True)
        return 10 * torch.log10(norm.mean(dim=0)), cov

    def update(self, x):
        spec, self.cov = self.spectrum(x, self.cov)
        return spec


def pick_peaks(spec, n=2):
    left, right = torch.roll(spec, 1), torch.roll(spec, -1)
    idx = torch.nonzero((spec > left) & (spec > right)).flatten()
    best = idx[torch.argsort(spec[idx], descending=True)[:n]]
    return sorted(round(math.degrees(AZ[i].item())) for i in best)


def main():
    gen = torch.Generator().manual_seed(77)
    mics = array_geometry()
    bf = Beamformer(mics)
    errors = []
    t0 = time.time()
    for b in range(BLOCKS):
        truth = ((40 + 1.5 * b) % 360, (220 - 2.0 * b) % 360)
        x = synth_block(mics, truth, gen)
        spec = bf.update(x)
        found = pick_peaks(spec)
        err = min(abs((f - truth[0] + 180) % 360 - 180) for f in found) if found else 180.0
        errors.append(err)
        if b % 8 == 7:
            print(
                f"block {b + 1:3d} truth {truth[0]:5.1f}/{truth[1]:5.1f}  found {found}  "
                f"err {err:4.1f} deg [{time.time() - t0:.1f}s]"
            )
    print(f"median error of main source {sorted(errors)[len(errors) // 2]:.1f} deg")


if __name__ == "__main__":
    main()
