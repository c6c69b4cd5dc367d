"""Variant-caller style pair-HMM: log-likelihood of every read against every
candidate haplotype by the forward algorithm along anti-diagonals, then a
diploid genotype call per region."""

import math
import time

import torch

READ_LEN = 96
HAP_LEN = 140
READS, HAPS = 40, 6
REGIONS = 60
GAP_OPEN, GAP_EXT = 45.0, 10.0  # phred


def phred(q):
    return 10.0 ** (-q / 10.0)


def simulate_region(gen):
    """A reference window, haplotypes that differ by a few SNVs and small indels,
    and reads drawn from two of them."""
    ref = torch.randint(0, 4, (HAP_LEN + 20,), generator=gen)
    haps = []
    for h in range(HAPS):
        s = ref.clone()
        for _ in range(h):
            pos = int(torch.randint(20, HAP_LEN - 10, (1,), generator=gen))
            kind = int(torch.randint(0, 6, (1,), generator=gen))
            if kind == 0:
                s = torch.cat([s[:pos], s[pos + 2 :]])
            elif kind == 1:
                s = torch.cat([s[:pos], torch.randint(0, 4, (2,), generator=gen), s[pos:]])
            else:
                s[pos] = (s[pos] + 1) % 4
        haps.append(s[:HAP_LEN])
    haps = torch.stack(haps)
    true = torch.randperm(HAPS, generator=gen)[:2].sort().values
    src = true[torch.randint(0, 2, (READS,), generator=gen)]
    start = torch.randint(0, HAP_LEN - READ_LEN, (READS,), generator=gen)
    idx = start[:, None] + torch.arange(READ_LEN)
    reads = haps[src[:, None], idx]
    qual = torch.randint(18, 40, reads.shape, generator=gen).float()
    err = torch.rand(reads.shape, generator=gen) < phred(qual)
    reads = torch.where(err, (reads + 1 + (qual.long() % 3)) % 4, reads)
    return reads, qual, haps, true


def emission(reads, qual, haps):
    """[R, H, READ_LEN, HAP_LEN] probability of the read base given the hap base."""
    e = phred(qual)[:, None, :, None]
    same = reads[:, None, :, None] == haps[None, :, None, :]
    return torch.where(same, 1.0 - e, e / 3.0)


def skew(prior):
    """Shear so that anti-diagonal k of the DP matrix becomes row k."""
    r, h, n, m = prior.shape
    pad = torch.nn.functional.pad(prior, (0, n))
    flat = pad.reshape(r * h, n * (m + n))[:, : n * (m + n - 1)]
    return flat.view(r * h, n, m + n - 1).permute(2, 0, 1).contiguous()


@torch.compile
def diagonal(m1, x1, y1, m2, x2, y2, prior, edge):
    """One anti-diagonal update; index = read position, 1 = previous diagonal."""
    delta, eps = phred(GAP_OPEN), phred(GAP_EXT)
    mm, gm = 1.0 - 2.0 * delta, 1.0 - eps
    shift = torch.nn.functional.pad
    md = shift(m2, (1, 0))[:, :-1]
    xd = shift(x2, (1, 0))[:, :-1]
    yd = torch.cat([edge, y2[:, :-1]], dim=1)
    m = prior * (mm * md + gm * (xd + yd))
    x = delta * shift(m1, (1, 0))[:, :-1] + eps * shift(x1, (1, 0))[:, :-1]
    y = delta * m1 + eps * y1
    return m, x, y


def read_loglik(reads, qual, haps):
    r, h = reads.shape[0], haps.shape[0]
    n, m = reads.shape[1], haps.shape[1]
    prior = skew(emission(reads, qual, haps))
    scale = 2.0**60
    zero = torch.zeros(r * h, n)
    edge = torch.full((r * h, 1), scale / m)
    none = torch.zeros(r * h, 1)
    m1 = x1 = y1 = m2 = x2 = y2 = zero
    total = torch.zeros(r * h)
    for k in range(n + m - 1):
        m0, x0, y0 = diagonal(m1, x1, y1, m2, x2, y2, prior[k], edge if k < m else none)
        if k >= n - 1:
            total += m0[:, -1] + x0[:, -1]
        m2, x2, y2 = m1, x1, y1
        m1, x1, y1 = m0, x0, y0
    return (torch.log(total) - math.log(scale)).view(r, h)


def genotype(loglik):
    """Best unordered haplotype pair under a 50/50 read mixture."""
    pair = torch.logaddexp(loglik[:, :, None], loglik[:, None, :]) - math.log(2.0)
    score = pair.sum(0)
    best = int(score.argmax())
    return sorted(divmod(best, loglik.shape[1])), score.max().item()


def main():
    gen = torch.Generator().manual_seed(42)
    regions = [simulate_region(gen) for _ in range(REGIONS)]
    ok, cells, t0 = 0, 0, time.perf_counter()
    with torch.no_grad():
        for i, (reads, qual, haps, true) in enumerate(regions):
            ll = read_loglik(reads, qual, haps)
            call, score = genotype(ll)
            ok += call == true.tolist()
            cells += READS * HAPS * READ_LEN * HAP_LEN
            if i % 12 == 11:
                print(f"region {i:3d}  call {call} truth {true.tolist()}  loglik {score:10.2f}")
    dt = time.perf_counter() - t0
    print(
        f"{ok}/{REGIONS} genotypes correct, {cells / dt / 1e6:.1f}M cells/s, "
        f"{dt / REGIONS * 1e3:.1f} ms per region"
    )


if __name__ == "__main__":
    main()
