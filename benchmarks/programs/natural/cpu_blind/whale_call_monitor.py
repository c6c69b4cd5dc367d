"""Streaming detector for low-frequency whale calls on a small hydrophone array.

Blocks of audio arrive one after the other; every block is whitened against a
running noise floor, beamformed in the frequency domain and scored."""

import math
import time

import torch

torch.manual_seed(2024)

FS = 8000
CHANNELS = 6
BLOCK = 16000  # two seconds
NFFT = 512
HOP = 128
SPACING = 12.0  # m between hydrophones
SOUND = 1500.0
BEARINGS = 24
BLOCKS = 2000


def steering():
    f = torch.fft.rfftfreq(NFFT, 1.0 / FS)
    ang = torch.linspace(-math.pi / 2, math.pi / 2, BEARINGS)
    pos = torch.arange(CHANNELS) * SPACING
    delay = torch.sin(ang)[:, None] * pos[None, :] / SOUND
    phase = 2 * math.pi * f[None, None, :] * delay[:, :, None]
    return torch.polar(torch.ones_like(phase), phase)  # bearing, ch, freq


class Detector:
    def __init__(self):
        self.window = torch.hann_window(NFFT)
        self.steer = steering()
        freqs = torch.fft.rfftfreq(NFFT, 1.0 / FS)
        self.band = (freqs > 80) & (freqs < 1200)
        self.floor = torch.ones(CHANNELS, NFFT // 2 + 1)
        self.threshold = 3.0
        self.seen = 0
        self.hits = []

    @torch.compile
    def process(self, audio):
        audio = audio - audio.mean(dim=-1, keepdim=True)
        spec = torch.stft(audio, NFFT, HOP, window=self.window, return_complex=True)
        power = spec.abs().square()
        self.floor = 0.95 * self.floor + 0.05 * power.median(dim=-1).values
        white = spec / torch.sqrt(self.floor + 1e-9)[..., None]
        white = white[:, self.band]
        steer = self.steer[:, :, self.band]
        beams = torch.einsum("bcf,cft->bft", steer.conj(), white) / CHANNELS
        energy = torch.log1p(beams.abs().square())
        contrast = energy - energy.mean(dim=1, keepdim=True)
        score = torch.relu(contrast).mean(dim=1)  # bearing, time
        smooth = torch.nn.functional.avg_pool1d(score[:, None], 9, 1, 4)[:, 0]
        z = (smooth - smooth.mean()) / (smooth.std() + 1e-6)
        best = z.max()
        if best.item() > self.threshold:
            where = z.amax(dim=1).argmax()
            self.hits.append((self.seen, int(where), float(best)))
        self.seen += 1
        return best


def make_block(gen, with_call):
    noise = torch.randn(CHANNELS, BLOCK, generator=gen)
    noise = noise + 0.9 * torch.roll(noise, 1, -1) + 0.6 * torch.roll(noise, 2, -1)
    if not with_call:
        return noise, None
    t = torch.arange(BLOCK) / FS
    bearing = (torch.rand(1, generator=gen).item() - 0.5) * 2.4
    centre = 0.5 + torch.rand(1, generator=gen).item()
    block = noise
    for c in range(CHANNELS):
        tau = t - c * SPACING * math.sin(bearing) / SOUND
        env = torch.exp(-(((tau - centre) / 0.18) ** 2))
        chirp = torch.sin(2 * math.pi * (300 * tau + 90 * (tau - centre) ** 2))
        block[c] += 1.6 * env * chirp
    return block, bearing


def main():
    gen = torch.Generator().manual_seed(11)
    library = [make_block(gen, with_call=(i % 8 == 5)) for i in range(40)]
    detector = Detector()

    start = time.time()
    busy = 0.0
    with torch.no_grad():
        for b in range(BLOCKS):
            audio, _ = library[b % len(library)]
            t0 = time.perf_counter()
            detector.process(audio)
            busy += time.perf_counter() - t0
    elapsed = time.time() - start

    found = {i for i, _, _ in detector.hits}
    calls = {b for b in range(BLOCKS) if b % 8 == 5}
    print(f"{BLOCKS} blocks in {elapsed:.1f} s, {1e3 * busy / BLOCKS:.2f} ms a block")
    print(
        f"recall {len(found & calls) / len(calls):.2f}, "
        f"false alarms {len(found - calls)} of {BLOCKS - len(calls)}"
    )
    for i, where, z in detector.hits[:5]:
        print(f"  block {i}: bearing bin {where}, z = {z:.1f}")


if __name__ == "__main__":
    main()
