"""First-light grade for dailies: camera log code values to HDR10 display.

The camera records 12-bit log-encoded RGB.  For every take the colourist sets
an exposure trim; from it a 1D table code -> PQ signal (SMPTE ST 2084) is made
in double precision and applied to all frames, followed by a saturation trim.
"""

import time
from dataclasses import dataclass

import torch

DEVICE = "cuda"

# ST 2084 constants
M1 = 2610.0 / 16384.0
M2 = 2523.0 / 4096.0 * 128.0
C1 = 3424.0 / 4096.0
C2 = 2413.0 / 4096.0 * 32.0
C3 = 2392.0 / 4096.0 * 32.0


@dataclass
class CameraLog:
    """Plain logarithmic encoding, so many stops over the code range."""

    bits: int = 12
    stops: float = 15.0
    mid_code: float = 0.39
    mid_nits: float = 18.0

    @property
    def size(self):
        return 1 << self.bits


@dataclass
class Take:
    name: str
    trim: torch.Tensor  # stops
    saturation: torch.Tensor
    frames: torch.Tensor  # [n, 3, h, w] int32 codes


class Grader:
    def __init__(self, camera):
        self.camera = camera
        self.luma = (0.2627, 0.6780, 0.0593)  # BT.2020
        self.apply = torch.compile(self._apply)

    def pq_table(self, trim, device):
        cam = self.camera
        code = torch.arange(cam.size, device=device, dtype=torch.float64)
        slope = cam.stops / (cam.size - 1)
        offset = -cam.stops * cam.mid_code
        rel = torch.exp2(code * slope + (trim + offset))
        y = rel * (cam.mid_nits / 10000.0)
        p = y**M1
        return (((C1 + C2 * p) / (1.0 + C3 * p)) ** M2).float()

    def _apply(self, frames, trim, saturation):
        table = self.pq_table(trim, frames.device)
        signal = table[frames]
        wr, wg, wb = self.luma
        y = wr * signal[:, 0] + wg * signal[:, 1] + wb * signal[:, 2]
        y = y.unsqueeze(1)
        out = y + saturation * (signal - y)
        return out.clamp(0.0, 1.0).half()


def shoot(name, n, h, w, gen, camera):
    """Smooth lighting with some texture and sensor noise, in code values."""
    yy = torch.linspace(0, 1, h, device=DEVICE).view(1, 1, h, 1)
    xx = torch.linspace(0, 1, w, device=DEVICE).view(1, 1, 1, w)
    phase = torch.rand(n, 3, 1, 1, device=DEVICE, generator=gen) * 6.28
    base = 0.42 + 0.25 * torch.sin(3.0 * xx + phase) * torch.cos(2.0 * yy - phase)
    grain = 0.01 * torch.randn(n, 3, h, w, device=DEVICE, generator=gen)
    codes = ((base + grain).clamp(0, 1) * (camera.size - 1)).round().int()
    trim = torch.rand((), device=DEVICE, generator=gen, dtype=torch.float64) * 2 - 1
    sat = 0.8 + 0.4 * torch.rand((), device=DEVICE, generator=gen)
    return Take(name, trim, sat, codes)


@torch.inference_mode()
def main():
    gen = torch.Generator(device=DEVICE).manual_seed(2084)
    camera = CameraLog()
    grader = Grader(camera)
    takes = [shoot(f"A00{i + 1}", 6, 1080, 1920, gen, camera) for i in range(4)]

    for take in takes[:2]:  # let the compiler see it
        grader.apply(take.frames, take.trim, take.saturation)
    torch.cuda.synchronize()

    report = {}
    for step in range(24):
        take = takes[step % len(takes)]
        t0 = time.perf_counter()
        graded = grader.apply(take.frames, take.trim, take.saturation)
        torch.cuda.synchronize()
        ms = (time.perf_counter() - t0) * 1e3
        print(f"{take.name} pass {step // 4}: {ms:7.3f} ms ({take.frames.shape[0]} frames)")
        report[take.name] = (graded.float().mean().item(), graded.float().amax().item())

    for name, (avg, top) in report.items():
        print(f"{name}: mean PQ {avg:.4f}  max PQ {top:.4f}")


if __name__ == "__main__":
    main()
