"""Offline rendering of a hearing-aid prescription: multiband compression with julius filters.

Clips recorded at 48 kHz are brought to the aid's 16 kHz, split into eight bands, compressed in each band with
the wearer's gains, limited and summed. Renders a batch of speech-like clips for several wearers.
"""

import time

import julius
import torch
import torch.nn.functional as F
from torch import nn

CAPTURE_SR, AID_SR = 48_000, 16_000
CUTOFFS = [250.0, 500.0, 1000.0, 1500.0, 2000.0, 3000.0, 4500.0]
AUDIOGRAMS = {  # hearing loss in dB at the eight band centres
    "mild slope": [10, 10, 15, 20, 25, 35, 45, 50],
    "ski slope": [10, 10, 10, 20, 45, 65, 75, 80],
    "flat": [45, 45, 45, 50, 50, 50, 50, 55],
    "cookie bite": [15, 25, 40, 50, 50, 40, 25, 20],
}


class BandCompressor(nn.Module):
    """Feed-forward wide dynamic range compression with a soft knee, one setting per band."""

    def __init__(self, n_bands, frame=64, knee_db=10.0):
        super().__init__()
        self.frame = frame
        self.knee = knee_db
        self.register_buffer("gain_db", torch.zeros(n_bands))
        self.register_buffer("ratio", torch.ones(n_bands))
        self.register_buffer("threshold", torch.full((n_bands,), -45.0))

    def prescribe(self, loss_db):
        loss = torch.tensor(loss_db, dtype=torch.float32)
        self.gain_db.copy_(0.31 * loss + 0.1 * (loss - 40).clamp(min=0))
        self.ratio.copy_(1 + loss / 60)
        self.threshold.copy_(-50 + 0.1 * loss)

    def forward(self, bands):  # (bands, clips, samples)
        power = F.avg_pool1d(bands.square(), self.frame)
        # a slower and a faster estimate; the louder of the two acts, as in dual time constant aids
        slow = F.avg_pool1d(F.pad(power, (15, 0), mode="replicate"), 16, stride=1)
        level = 10 * torch.log10(torch.maximum(power, slow) + 1e-10)
        over = level - self.threshold[:, None, None]
        soft = (over + self.knee / 2).clamp(0, self.knee).square() / (2 * self.knee)
        above = torch.where(over > self.knee / 2, over, soft)
        gain = self.gain_db[:, None, None] - above * (1 - 1 / self.ratio[:, None, None])
        gain = F.interpolate(gain, size=bands.shape[-1], mode="linear", align_corners=False)
        return bands * torch.exp(gain * 0.1151293)


class HearingAid(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_aid = julius.ResampleFrac(CAPTURE_SR, AID_SR)
        self.rumble = julius.HighPassFilter(80.0 / AID_SR)
        self.split = julius.SplitBands(AID_SR, cutoffs=CUTOFFS)
        self.compress = BandCompressor(len(CUTOFFS) + 1)

    def forward(self, clips):
        x = self.rumble(self.to_aid(clips))
        y = self.compress(self.split(x)).sum(dim=0)
        return torch.tanh(1.2 * y) / 1.2


def speech_like(n, seconds, gen):
    t = torch.arange(int(seconds * CAPTURE_SR)) / CAPTURE_SR
    f0 = 110 + 120 * torch.rand(n, 1, generator=gen)
    phase = 2 * torch.pi * (f0 * t + 2.0 * torch.sin(2 * torch.pi * 3 * t))
    voiced = sum(torch.sin(k * phase) / k for k in range(1, 12))
    syllables = torch.sigmoid(6 * torch.sin(2 * torch.pi * (2 + 3 * torch.rand(n, 1, generator=gen)) * t))
    hiss = torch.randn(n, t.numel(), generator=gen) * (1 - syllables) * 0.3
    level = 10 ** (-torch.rand(n, 1, generator=gen) * 1.5)
    return 0.1 * level * (voiced * syllables + hiss)


def main():
    gen = torch.Generator().manual_seed(3)
    batches = [speech_like(8, 2.0, gen) for _ in range(6)]
    aid = HearingAid().eval()
    render = torch.compile(aid)
    with torch.inference_mode():
        for name, loss_db in AUDIOGRAMS.items():
            aid.compress.prescribe(loss_db)
            start, seconds, rms_in, rms_out, peak = time.perf_counter(), 0.0, 0.0, 0.0, 0.0
            for clips in batches * 5:
                out = render(clips)
                seconds += out.numel() / AID_SR
                rms_in += clips.square().mean().item()
                rms_out += out.square().mean().item()
                peak = max(peak, out.abs().max().item())
            wall = time.perf_counter() - start
            print(
                f"{name:12s} overall gain {10 * torch.log10(torch.tensor(rms_out / rms_in)):.1f} dB, "
                f"peak {peak:.2f}, {seconds / wall:.0f} x real time"
            )
        bands = aid.split(batches[0][:, ::3])
        print(f"band split reconstructs within {(bands.sum(0) - batches[0][:, ::3]).abs().max():.1e}")


if __name__ == "__main__":
    main()
