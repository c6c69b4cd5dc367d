"""YIN fundamental-frequency tracking over a folder of (synthetic) singing takes."""

import logging
import math
import time

import torch

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("yin")

SR = 22050


class YinTracker:
    def __init__(self, sr=SR, window=1024, hop=256, fmin=70.0, fmax=900.0, threshold=0.15):
        self.sr, self.window, self.hop = sr, window, hop
        self.tau_min = int(sr / fmax)
        self.tau_max = int(sr / fmin)
        self.threshold = threshold
        self.frame_len = window + self.tau_max
        self.n_fft = 1 << (self.frame_len - 1).bit_length()
        self.track = torch.compile(self._track)

    def _difference(self, frames):
        w, tmax = self.window, self.tau_max
        head = frames[:, :w]
        spec = torch.fft.rfft(frames, n=self.n_fft)
        spec_head = torch.fft.rfft(head, n=self.n_fft)
        acf = torch.fft.irfft(spec * spec_head.conj(), n=self.n_fft)[:, : tmax + 1]
        sq = torch.nn.functional.pad((frames * frames).cumsum(1), (1, 0))
        energy = sq[:, w : w + tmax + 1] - sq[:, : tmax + 1]
        return (energy[:, :1] + energy - 2 * acf).clamp(min=0)

    def _track(self, wav):
        frames = wav.unfold(0, self.frame_len, self.hop)
        frames = frames - frames.mean(1, keepdim=True)
        d = self._difference(frames)
        tau = torch.arange(1, self.tau_max + 1, device=wav.device)
        cmnd = d[:, 1:] * tau / d[:, 1:].cumsum(1).clamp(min=1e-9)  # column j is lag j + 1
        band = cmnd[:, self.tau_min - 1 :]

        # first local minimum below the threshold, else the global minimum
        nxt = torch.cat([band[:, 1:], torch.full_like(band[:, :1], 10.0)], 1)
        prv = torch.cat([torch.full_like(band[:, :1], 10.0), band[:, :-1]], 1)
        dip = (band < self.threshold) & (band <= nxt) & (band < prv)
        first = dip.int().argmax(1)
        best = torch.where(dip.any(1), first, band.argmin(1))

        # parabolic refinement
        idx = best.clamp(1, band.shape[1] - 2).unsqueeze(1)
        y0 = band.gather(1, idx - 1).squeeze(1)
        y1 = band.gather(1, idx).squeeze(1)
        y2 = band.gather(1, idx + 1).squeeze(1)
        den = y0 - 2 * y1 + y2
        shift = torch.where(den.abs() > 1e-9, 0.5 * (y0 - y2) / den, torch.zeros_like(den)).clamp(-1, 1)
        lag = idx.squeeze(1) + self.tau_min + shift
        f0 = self.sr / lag
        level = 10 * torch.log10(frames.pow(2).mean(1) + 1e-10)
        voiced = (y1 < 0.3) & (level > -45)
        return torch.where(voiced, f0, torch.zeros_like(f0)), 1 - y1, level


def synth_take(seconds, gen):
    n = int(seconds * SR)
    t = torch.arange(n) / SR
    notes = 45 + torch.randint(0, 24, (int(seconds * 2) + 2,), generator=gen).float()
    midi = notes[(t * 2).long()] + 0.3 * torch.sin(2 * math.pi * 5.5 * t)
    f0 = 440 * 2 ** ((midi - 69) / 12)
    ph = 2 * math.pi * torch.cumsum(f0.double() / SR, 0).float()
    x = sum(torch.sin(h * ph) / h for h in range(1, 7))
    gate = ((t * 2) % 1 < 0.85).float()
    return (0.2 * x * gate + 0.002 * torch.randn(n, generator=gen)), f0


def main():
    gen = torch.Generator().manual_seed(3)
    tracker = YinTracker()
    segment = 15 * SR
    takes = [synth_take(s, gen) for s in (60, 75, 105, 60)]
    for rnd in range(5):
        for name, (wav, truth) in enumerate(takes):
            start = time.perf_counter()
            f0 = []
            for seg in wav.split(segment):
                f, conf, lev = tracker.track(seg)
                f0.append(f)
            took = time.perf_counter() - start
            f0 = torch.cat(f0)
            v = f0[f0 > 0]
            med = 69 + 12 * torch.log2(v.median() / 440)
            log.info(
                "round %d take %d: %.0f s of audio in %.3f s (x%.0f), voiced %.2f, median note %.1f",
                rnd,
                name,
                len(wav) / SR,
                took,
                len(wav) / SR / took,
                (f0 > 0).float().mean(),
                med,
            )


if __name__ == "__main__":
    with torch.no_grad():
        main()
