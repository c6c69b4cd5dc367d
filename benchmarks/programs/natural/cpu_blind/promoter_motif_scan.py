"""Scan promoter sequences against a library of transcription-factor motifs.

Every promoter gets, for every motif, the best log-odds score over both strands, the position
of that hit and the number of hits above the motif's p-value cut-off.
"""

import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

BASES = "ACGT"


def random_pwms(n, rng, min_w=8, max_w=18):
    """Dirichlet columns, like a JASPAR dump with a few informative positions."""
    pwms = []
    for _ in range(n):
        w = int(rng.integers(min_w, max_w + 1))
        sharp = rng.choice([0.15, 0.5, 2.0], size=w, p=[0.5, 0.3, 0.2])
        cols = np.stack([rng.dirichlet(np.full(4, s)) for s in sharp], axis=1)
        pwms.append(cols.astype(np.float32))
    return pwms


def log_odds(pwm, background, pseudo=1e-3):
    p = (pwm + pseudo) / (pwm + pseudo).sum(0, keepdims=True)
    return np.log2(p / background[:, None])


class MotifScanner(nn.Module):
    def __init__(self, pwms, background, quantile=0.9995):
        super().__init__()
        width = max(p.shape[1] for p in pwms)
        fwd = np.zeros((len(pwms), 4, width), np.float32)
        lengths = []
        for i, p in enumerate(pwms):
            s = log_odds(p, background)
            fwd[i, :, : s.shape[1]] = s
            lengths.append(s.shape[1])
        self.width = width
        self.quantile = quantile
        self.register_buffer("forward_filters", torch.from_numpy(fwd))
        self.register_buffer("lengths", torch.tensor(lengths))
        self.register_buffer("threshold", torch.zeros(len(pwms)))

    def encode(self, seq):
        # 0..3 are bases, 4 is N: drop the last channel so N scores 0 everywhere
        onehot = F.one_hot(seq, 5).float()
        return onehot[..., :4].transpose(1, 2)

    def calibrate(self, seq):
        with torch.no_grad():
            s = F.conv1d(self.encode(seq), self.forward_filters)
            s = s.transpose(0, 1).reshape(s.shape[1], -1)
            k = max(1, int(s.shape[1] * (1 - self.quantile)))
            self.threshold.copy_(s.topk(k, dim=1).values[:, -1])

    def forward(self, seq):
        x = self.encode(seq)
        plus = F.conv1d(x, self.forward_filters)
        # reverse complement of the sequence: complement = reversed base order in ACGT
        rc = torch.flip(x, dims=(1, 2))
        minus = torch.flip(F.conv1d(rc, self.forward_filters), dims=(2,))
        both = torch.stack([plus, minus], dim=2)  # [B, M, 2, P]
        score, pos = both.flatten(2).max(dim=-1)
        strand = pos // plus.shape[-1]
        hits = (both > self.threshold[None, :, None, None]).sum(dim=(2, 3))
        norm = score / self.lengths
        return score, pos % plus.shape[-1], strand, hits, norm


def make_promoters(n, length, rng):
    probs = np.array([0.27, 0.22, 0.22, 0.27, 0.02])
    return torch.from_numpy(rng.choice(5, size=(n, length), p=probs).astype(np.int64))


def consensus(pwm):
    return "".join(BASES[i] for i in pwm.argmax(0))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--motifs", type=int, default=96)
    ap.add_argument("--promoters", type=int, default=640)
    ap.add_argument("--length", type=int, default=1000)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--seed", type=int, default=11)
    args = ap.parse_args()

    rng = np.random.default_rng(args.seed)
    background = np.array([0.28, 0.22, 0.22, 0.28], np.float32)
    pwms = random_pwms(args.motifs, rng)
    scanner = MotifScanner(pwms, background).eval()
    scanner.calibrate(make_promoters(24, args.length, rng))
    promoters = make_promoters(args.promoters, args.length, rng)

    scan = torch.compile(scanner)
    with torch.no_grad():
        for _ in range(2):
            scan(promoters[: args.batch])

        total_hits = torch.zeros(args.motifs)
        best = torch.full((args.motifs,), -1e9)
        t0 = time.perf_counter()
        calls = 0
        for start in range(0, args.promoters, args.batch):
            batch = promoters[start : start + args.batch]
            score, pos, strand, hits, norm = scan(batch)
            total_hits += hits.sum(0)
            best = torch.maximum(best, score.amax(0))
            calls += 1
        dt = time.perf_counter() - t0

    top = total_hits.topk(5).indices.tolist()
    for m in top:
        print(f"motif {m:3d} {consensus(pwms[m]):<18s} hits {int(total_hits[m]):5d} best {best[m]:.2f}")
    print(f"{calls} batches, {dt / calls * 1e3:.2f} ms per batch, {args.promoters / dt:.0f} promoters/s")


if __name__ == "__main__":
    main()
