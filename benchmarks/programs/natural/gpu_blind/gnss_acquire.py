"""Cold-start GPS L1 C/A acquisition: parallel code-phase search over 32 satellites and
all Doppler bins, with non-coherent integration over several code periods."""

import os
import time

import torch

DEVICE = "cpu" if os.environ.get("SMOKE") else "cuda"
SMOKE = DEVICE == "cpu"
FS = 2.048e6 if SMOKE else 8.192e6
SAMPLES = int(FS * 1e-3)  # one code period
PERIODS = 2 if SMOKE else 8
DOPPLER_MAX, DOPPLER_STEP = (1000.0, 500.0) if SMOKE else (5000.0, 250.0)
SNAPSHOTS = 2 if SMOKE else 40
THRESHOLD = 8.0
TAPS = [
    (2, 6),
    (3, 7),
    (4, 8),
    (5, 9),
    (1, 9),
    (2, 10),
    (1, 8),
    (2, 9),
    (3, 10),
    (2, 3),
    (3, 4),
    (5, 6),
    (6, 7),
    (7, 8),
    (8, 9),
    (9, 10),
    (1, 4),
    (2, 5),
    (3, 6),
    (4, 7),
    (5, 8),
    (6, 9),
    (1, 3),
    (4, 6),
    (5, 7),
    (6, 8),
    (7, 9),
    (8, 10),
    (1, 6),
    (2, 7),
    (3, 8),
    (4, 9),
]


def ca_code(prn):
    g1, g2, out = [1] * 10, [1] * 10, []
    a, b = TAPS[prn]
    for _ in range(1023):
        out.append(1 - 2 * (g1[9] ^ g2[a - 1] ^ g2[b - 1]))
        g1 = [g1[2] ^ g1[9]] + g1[:9]
        g2 = [g2[1] ^ g2[2] ^ g2[5] ^ g2[7] ^ g2[8] ^ g2[9]] + g2[:9]
    return torch.tensor(out, dtype=torch.float32)


def sampled_codes():
    chip = (torch.arange(SAMPLES) * 1.023e6 / FS).long() % 1023
    return torch.stack([ca_code(p) for p in range(32)])[:, chip].to(DEVICE)


def simulate(codes, seed):
    """IF samples with six visible satellites at about 45 dB-Hz."""
    g = torch.Generator().manual_seed(seed)
    n = SAMPLES * PERIODS
    t = torch.arange(n, device=DEVICE) / FS
    x = torch.complex(torch.randn(n, generator=g), torch.randn(n, generator=g)).to(DEVICE)
    truth = {}
    for prn in torch.randperm(32, generator=g)[:6].tolist():
        delay = int(torch.randint(SAMPLES, (1,), generator=g))
        dop = float((torch.rand(1, generator=g) * 2 - 1) * DOPPLER_MAX * 0.9)
        code = torch.roll(codes[prn], delay).repeat(PERIODS)
        x = x + 0.15 * code * torch.polar(torch.ones_like(t), 2 * torch.pi * dop * t)
        truth[prn] = (delay, dop)
    return x.view(PERIODS, SAMPLES), truth


class Acquisition(torch.nn.Module):
    def __init__(self, codes):
        super().__init__()
        self.register_buffer("code_fft", torch.fft.fft(codes).conj().resolve_conj())
        doppler = torch.arange(-DOPPLER_MAX, DOPPLER_MAX + 1, DOPPLER_STEP, device=DEVICE)
        t = torch.arange(SAMPLES, device=DEVICE) / FS
        phase = -2 * torch.pi * doppler[:, None] * t
        self.register_buffer("wipeoff", torch.polar(torch.ones_like(phase), phase))
        self.register_buffer("doppler", doppler)

    def forward(self, x):
        # (doppler, period, sample)
        spectrum = torch.fft.fft(x[None] * self.wipeoff[:, None])
        # (prn, doppler, period, sample)
        corr = torch.fft.ifft(spectrum[None] * self.code_fft[:, None, None])
        power = (corr.abs() ** 2).sum(2)
        per_bin, code_phase = power.max(-1)
        peak, bin_ = per_bin.max(-1)
        noise = power.mean((1, 2))
        code_phase = code_phase.gather(1, bin_[:, None])[:, 0]
        return peak / noise, self.doppler[bin_], code_phase


def main():
    codes = sampled_codes()
    search = torch.compile(Acquisition(codes))
    found = correct = 0
    t_total = 0.0
    with torch.inference_mode():
        for snap in range(SNAPSHOTS):
            x, truth = simulate(codes, seed=snap)
            t0 = time.perf_counter()
            metric, dop, phase = (v.cpu() for v in search(x))
            t_total += (time.perf_counter() - t0) * (snap >= SNAPSHOTS // 2)
            for prn in (metric > THRESHOLD).nonzero()[:, 0].tolist():
                found += 1
                if prn in truth and abs(int(phase[prn]) - truth[prn][0]) <= 4:
                    correct += 1
    print(f"{found} detections, {correct} correct, of {6 * SNAPSHOTS} satellites")
    print(f"{t_total / (SNAPSHOTS - SNAPSHOTS // 2) * 1e3:.2f} ms per snapshot")


if __name__ == "__main__":
    main()
