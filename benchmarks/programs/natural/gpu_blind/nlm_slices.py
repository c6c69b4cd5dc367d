"""Fast non-local means (integral images, Darbon et al.) for electron-tomography slices."""

import argparse
import os
import time

import torch
import torch.nn.functional as F

DEVICE = "cpu" if os.environ.get("SMOKE") else "cuda"
SMOKE = DEVICE == "cpu"


class NonLocalMeans:
    def __init__(self, patch_radius=2, search_radius=4, sigma=0.08, strength=0.6):
        self.p = patch_radius
        self.s = search_radius
        self.sigma2 = sigma**2
        self.h2 = (strength * sigma) ** 2
        self.accumulate = torch.compile(self._accumulate)

    def patch_distance(self, a, b):
        """Mean squared difference of the patches around every pixel of a and b."""
        k = 2 * self.p + 1
        diff = F.pad((a - b) ** 2, (self.p + 1, self.p, self.p + 1, self.p))
        integral = diff.cumsum(-1).cumsum(-2)
        box = integral[:, k:, k:] - integral[:, :-k, k:] - integral[:, k:, :-k] + integral[:, :-k, :-k]
        return box / k**2

    def _accumulate(self, stack, shifted, num, den, wmax):
        dist = self.patch_distance(stack, shifted)
        w = torch.exp(-(dist - 2 * self.sigma2).clamp(min=0) / self.h2)
        num += w * shifted
        den += w
        torch.maximum(wmax, w, out=wmax)

    @torch.no_grad()
    def __call__(self, stack):
        n, height, width = stack.shape
        padded = F.pad(stack[:, None], (self.s,) * 4, mode="reflect")[:, 0]
        num, den, wmax = (torch.zeros_like(stack) for _ in range(3))
        for dy in range(2 * self.s + 1):
            for dx in range(2 * self.s + 1):
                if dy == self.s and dx == self.s:
                    continue
                shifted = padded[:, dy : dy + height, dx : dx + width]
                self.accumulate(stack, shifted, num, den, wmax)
        # the pixel itself gets the largest weight seen in its neighbourhood
        return (num + wmax * stack) / (den + wmax).clamp(min=1e-6)


def phantom(slices, size, seed=0):
    g = torch.Generator().manual_seed(seed)
    y, x = torch.meshgrid(
        torch.linspace(-1, 1, size, device=DEVICE), torch.linspace(-1, 1, size, device=DEVICE), indexing="ij"
    )
    out = torch.full((slices, size, size), 0.3, device=DEVICE)
    for _ in range(30):
        cx, cy, r, v = (
            torch.rand(4, generator=g) * torch.tensor([2, 2, 0.2, 0.6]) + torch.tensor([-1, -1, 0.03, 0.1])
        ).tolist()
        for s in range(slices):
            rr = max(r - 0.01 * abs(s - slices / 2), 0.01)
            out[s][(x - cx) ** 2 + (y - cy) ** 2 < rr**2] = v
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--slices", type=int, default=4 if SMOKE else 64)
    ap.add_argument("--size", type=int, default=48 if SMOKE else 1024)
    ap.add_argument("--batch", type=int, default=2 if SMOKE else 8)
    ap.add_argument("--passes", type=int, default=1 if SMOKE else 4)
    args = ap.parse_args()

    clean = phantom(args.slices, args.size)
    torch.manual_seed(1)
    volume = clean + 0.08 * torch.randn_like(clean)

    def quality(v):
        return (-10 * torch.log10(F.mse_loss(v, clean))).item()

    nlm = NonLocalMeans()
    print(f"noisy: {quality(volume):.2f} dB")
    for p in range(args.passes):
        t0 = time.perf_counter()
        result = torch.cat([nlm(b) for b in volume.split(args.batch)])
        db = quality(result)
        print(
            f"pass {p}: {db:.2f} dB, {(time.perf_counter() - t0) / (args.slices / args.batch) * 1e3:.1f} ms per block"
        )


if __name__ == "__main__":
    main()
