"""Dither screens for an e-ink type foundry specimen: a stack of blue-noise threshold maps by void-and-cluster.

Each slice of the stack is an independent N x N toroidal screen (one per grey frame). The usual three phases: relax a
random start pattern, rank its pixels by removing tightest clusters, then rank the rest by filling the largest voids.
At the end a grey ramp is screened and the low-frequency energy is compared with white noise.
"""

import torch

SLICES = 24
N = 64
SIGMA = 1.9
START_FRACTION = 0.1


def toroidal_gaussian(n, sigma):
    d = torch.arange(n)
    d = torch.minimum(d, n - d).float()
    return torch.exp(-(d[:, None] ** 2 + d[None, :] ** 2) / (2 * sigma**2))


def splat(kernel, pos):
    """Kernel centred on the pixel pos (flat index) of each slice."""
    py = pos // N
    px = pos % N
    ys = (torch.arange(N)[None, :] - py[:, None]) % N
    xs = (torch.arange(N)[None, :] - px[:, None]) % N
    return kernel[ys[:, :, None], xs[:, None, :]]


def tightest_cluster(energy, bits):
    return torch.where(bits, energy, -float("inf")).flatten(1).argmax(1)


def largest_void(energy, bits):
    return torch.where(bits, float("inf"), energy).flatten(1).argmin(1)


@torch.compile
def relax(energy, bits, kernel):
    """Move the tightest cluster's pixel to the largest void; say which slices still change."""
    rows = torch.arange(SLICES)
    c = tightest_cluster(energy, bits)
    bits = bits.clone()
    bits.view(SLICES, -1)[rows, c] = False
    energy = energy - splat(kernel, c)
    v = largest_void(energy, bits)
    bits.view(SLICES, -1)[rows, v] = True
    energy = energy + splat(kernel, v)
    return energy, bits, c != v


@torch.compile
def remove_one(energy, bits, ranks, kernel, rank):
    rows = torch.arange(SLICES)
    c = tightest_cluster(energy, bits)
    bits.view(SLICES, -1)[rows, c] = False
    ranks.view(SLICES, -1)[rows, c] = rank
    energy -= splat(kernel, c)


@torch.compile
def fill_one(energy, bits, ranks, kernel, rank):
    rows = torch.arange(SLICES)
    v = largest_void(energy, bits)
    bits.view(SLICES, -1)[rows, v] = True
    ranks.view(SLICES, -1)[rows, v] = rank
    energy += splat(kernel, v)


def build_screens():
    g = torch.Generator().manual_seed(1984)
    kernel = toroidal_gaussian(N, SIGMA)
    ones = int(START_FRACTION * N * N)
    start = torch.rand(SLICES, N * N, generator=g).argsort(1)[:, :ones]
    bits = torch.zeros(SLICES, N * N, dtype=torch.bool)
    bits.scatter_(1, start, True)
    bits = bits.view(SLICES, N, N)
    fk = torch.fft.rfft2(kernel)
    energy = torch.fft.irfft2(torch.fft.rfft2(bits.float()) * fk, s=(N, N))

    moves = 0
    while moves < 1500:
        energy, bits, changed = relax(energy, bits, kernel)
        moves += 1
        if not changed.any():
            break

    ranks = torch.zeros(SLICES, N, N, dtype=torch.int32)
    e, b = energy.clone(), bits.clone()
    for rank in range(ones - 1, -1, -1):
        remove_one(e, b, ranks, kernel, rank)
    for rank in range(ones, N * N):
        fill_one(energy, bits, ranks, kernel, rank)
    return ranks, moves


def radial_low_fraction(pattern):
    p = torch.fft.fft2(pattern - pattern.mean((-2, -1), keepdim=True)).abs() ** 2
    f = torch.fft.fftfreq(N)
    r = torch.hypot(f[:, None], f[None, :])
    return (p * (r < 0.15)).sum((-2, -1)) / p.sum((-2, -1))


def main():
    ranks, moves = build_screens()
    thresholds = (ranks.float() + 0.5) / (N * N)
    assert all(len(s.unique()) == N * N for s in ranks)
    white = torch.rand(SLICES, N, N, generator=torch.Generator().manual_seed(2))
    print(f"{SLICES} screens of {N}x{N}; {moves} relaxation moves")
    for grey in (0.1, 0.25, 0.5):
        blue = radial_low_fraction((thresholds < grey).float()).mean()
        wn = radial_low_fraction((white < grey).float()).mean()
        print(f"grey {grey:.2f}: low-frequency energy {blue:.4f} (white noise {wn:.4f})")
    ramp = torch.linspace(0, 1, 512).expand(N, 512)
    tiled = thresholds[0].repeat(1, 512 // N)
    print(f"ramp mean after screening {(ramp > tiled).float().mean():.4f}")


if __name__ == "__main__":
    main()
