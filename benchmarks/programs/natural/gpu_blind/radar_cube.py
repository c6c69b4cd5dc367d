"""FMCW radar processing: range/Doppler/angle FFTs and CA-CFAR detection."""

import os
import time

import torch
import torch.nn.functional as F

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

RX = 16
CHIRPS = 256
SAMPLES = max(64, int(1024 * SCALE) // 2 * 2)
ANGLES = 64


def cfar(power, guard=2, train=6, factor=4.0):
    outer = 2 * (guard + train) + 1
    inner = 2 * guard + 1
    p = power[None, None]
    s_out = F.avg_pool2d(p, outer, stride=1, padding=outer // 2, count_include_pad=False) * outer**2
    s_in = F.avg_pool2d(p, inner, stride=1, padding=inner // 2, count_include_pad=False) * inner**2
    noise = (s_out - s_in) / (outer**2 - inner**2)
    local_max = F.max_pool2d(p, 3, stride=1, padding=1)
    hits = (p > factor * noise) & (p == local_max)
    return hits[0, 0], noise[0, 0]


@torch.compile
def process_frame(cube, range_win, doppler_win, angle_win, phase_cal):
    # remove static clutter and calibrate the receive channels
    cube = cube - cube.mean(dim=1, keepdim=True)
    cube = cube * phase_cal[:, None, None]

    rng = torch.fft.fft(cube * range_win, dim=2)[:, :, : SAMPLES // 2]
    dop = torch.fft.fft(rng * doppler_win[:, None], dim=1)
    dop = torch.fft.fftshift(dop, dim=1)

    power = (dop.real**2 + dop.imag**2).mean(0)
    hits, noise = cfar(power)
    snr = 10 * torch.log10(power / noise.clamp(min=1e-12))

    ang = torch.fft.fft(dop * angle_win[:, None, None], n=ANGLES, dim=0)
    ang = torch.fft.fftshift(ang, dim=0)
    spectrum = ang.abs()
    best_angle = spectrum.argmax(0)
    return hits, snr, best_angle, spectrum.amax(dim=(1, 2))


def simulate(targets, noise=0.3):
    n = torch.arange(SAMPLES, device=device) / SAMPLES
    m = torch.arange(CHIRPS, device=device) / CHIRPS
    k = torch.arange(RX, device=device) / 2
    cube = noise * torch.randn(RX, CHIRPS, SAMPLES, dtype=torch.complex64, device=device)
    for r, v, s in targets:
        phase = r * n[None, None, :] + v * m[None, :, None] + s * k[:, None, None]
        cube += torch.exp(2j * torch.pi * phase)
    return cube


def sync():
    if device == "cuda":
        torch.cuda.synchronize()


def main():
    torch.manual_seed(5)
    targets = [(12.0, 20.0, 0.3), (25.5, -33.0, -0.5), (18.0, 60.0, 0.1)]
    frames = [simulate(targets) for _ in range(6)]
    range_win = torch.hann_window(SAMPLES, device=device)
    doppler_win = torch.hann_window(CHIRPS, device=device)
    angle_win = torch.hamming_window(RX, device=device)
    cal = torch.exp(0.05j * torch.randn(RX, device=device))

    for i in range(4):
        process_frame(frames[i], range_win, doppler_win, angle_win, cal)
    sync()
    steps = 60
    t0 = time.perf_counter()
    hit_count = torch.zeros((), dtype=torch.long, device=device)
    for i in range(steps):
        hits, snr, angle, profile = process_frame(frames[i % 6], range_win, doppler_win, angle_win, cal)
        hit_count += hits.sum()
    sync()
    dt = (time.perf_counter() - t0) / steps
    print(
        f"detections {hit_count.item()}, max snr {snr.max().item():.2f} dB, profile {profile.sum().item():.1f}"
    )
    print(f"{dt * 1e3:.3f} ms per frame")


if __name__ == "__main__":
    main()
