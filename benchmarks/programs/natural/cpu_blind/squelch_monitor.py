"""Squelch / activity detector of a wide-band monitoring receiver.

The FPGA delivers linear power spectra, 16 frames per transfer, for 128 voice
channels of 1024 bins.  Per bin we keep a short-term average, a slow peak envelope
and a tracked floor; a channel is declared active when enough of its bins stand
out.  Channels whose transmitter is off are gated in the FPGA and arrive as zeros.
"""

import time

import torch

torch.manual_seed(145)

CHANNELS, BINS, FRAMES = 128, 1024, 16


class ActivityDetector:
    def __init__(self, fast=0.75, env=0.78, rise=1.02, ratio=4.0, min_bins=20):
        self.fast = fast  # per-frame memory of the short-term average
        self.env = env  # release of the peak envelope
        self.rise = rise  # how quickly the floor may creep up
        self.ratio = ratio  # 6 dB over floor
        self.min_bins = min_bins
        self.avg = torch.zeros(CHANNELS, BINS)
        self.peak = torch.zeros(CHANNELS, BINS)
        self.floor = torch.full((CHANNELS, BINS), 1.0)
        self._update = torch.compile(self.update)

    def update(self, spectra, avg, peak, floor):
        """spectra: [frames, channels, bins]; returns new state and active bins."""
        hits = torch.zeros_like(avg)
        for t in range(FRAMES):
            p = spectra[t]
            avg = self.fast * avg + (1.0 - self.fast) * p
            peak = torch.maximum(p, self.env * peak)
            floor = torch.minimum(floor * self.rise, 0.5 * (avg + 1e-3))
            crest = avg * 0.8 + peak * 0.2
            hits = hits + (crest > self.ratio * floor).float()
        occupied = (hits > FRAMES // 2).sum(dim=1)
        return avg, peak, floor, occupied

    def push(self, spectra):
        self.avg, self.peak, self.floor, occ = self._update(spectra, self.avg, self.peak, self.floor)
        return occ >= self.min_bins


class Band:
    """Exponential noise bins plus a speech-like comb on the keyed channels."""

    def __init__(self, seed=433):
        self.g = torch.Generator().manual_seed(seed)
        comb = torch.arange(BINS)
        self.voice = 40.0 * torch.exp(-((comb % 37) / 3.0)) * torch.exp(-comb / 300.0)

    def transfer(self, keyed):
        noise = -torch.log(torch.rand(FRAMES, CHANNELS, BINS, generator=self.g) + 1e-7)
        return (noise + self.voice) * keyed[None, :, None]


def main():
    band = Band()
    det = ActivityDetector()

    everybody = torch.ones(CHANNELS)
    rush = band.transfer(everybody)
    # after the morning round call only every sixth station keeps its carrier up
    staying = (torch.arange(CHANNELS) % 6 == 0).float()
    quiet = [band.transfer(staying) for _ in range(3)]

    for _ in range(2):
        det.push(rush)
    for i in range(30):
        det.push(quiet[i % 3])

    n, active = 30, 0
    t0 = time.perf_counter()
    for i in range(n):
        active += int(det.push(quiet[i % 3]).sum())
    dt = (time.perf_counter() - t0) / n
    print(f"time per step: {dt * 1e3:.2f} ms")
    print(f"result: {active / n:.2f} active channels, mean floor {det.floor.mean():.5f}")


if __name__ == "__main__":
    main()
