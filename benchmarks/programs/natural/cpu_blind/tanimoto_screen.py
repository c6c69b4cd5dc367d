"""Similarity screen of query molecules against a compound library with 1024-bit
Morgan-like fingerprints (packed bytes), reporting the nearest neighbours."""

import time

import numpy as np
import torch

torch.set_num_threads(2)

N_BITS = 1024
N_BYTES = N_BITS // 8
POPCOUNT = torch.tensor([bin(i).count("1") for i in range(256)], dtype=torch.int32)


def random_library(n, rng, n_scaffolds=200):
    """Molecules share a scaffold's bits and add substituent bits."""
    scaffold = rng.random((n_scaffolds, N_BITS)) < 0.03
    member = rng.integers(0, n_scaffolds, n)
    decor = rng.random((n, N_BITS)) < 0.015
    bits = scaffold[member] | decor
    return torch.from_numpy(np.packbits(bits, axis=1)), member


def popcount(x):
    return POPCOUNT[x.long()].sum(-1)


class Screen:
    def __init__(self, library, k=20, alpha=1.0, beta=1.0):
        self.library = library
        self.counts = popcount(library)
        self.k = k
        self.alpha, self.beta = alpha, beta

    def similarity(self, query):
        common = popcount(query[:, None, :] & self.library[None, :, :])
        only_q = popcount(query)[:, None] - common
        only_l = self.counts[None, :] - common
        # Tversky index; alpha = beta = 1 is Tanimoto
        return common / (common + self.alpha * only_q + self.beta * only_l)

    def nearest(self, query):
        sim = self.similarity(query)
        score, idx = torch.topk(sim, self.k, dim=1)
        dense = (sim > 0.5).sum(1)
        return score, idx, dense


def main():
    rng = np.random.default_rng(8)
    library, scaffold = random_library(16_000, rng)
    screen = Screen(library)
    nearest = torch.compile(screen.nearest)

    # queries: library members with a few bits flipped
    picks = rng.integers(0, len(library), 4 * 28)
    flips = torch.from_numpy(np.packbits(rng.random((len(picks), N_BITS)) < 0.008, axis=1))
    queries = library[torch.from_numpy(picks)] ^ flips

    with torch.no_grad():
        for batch in queries[:12].split(4):
            nearest(batch)

        hits, same, neighbours = 0, [], []
        t0 = time.perf_counter()
        batches = queries[12:].split(4)
        for j, batch in enumerate(batches):
            score, idx, dense = nearest(batch)
            src = picks[12 + 4 * j : 16 + 4 * j]
            idx = idx.numpy()
            hits += int((idx[:, 0] == src).sum())
            same.append((scaffold[idx] == scaffold[src][:, None]).mean())
            neighbours.append(dense.float().mean().item())
        dt = time.perf_counter() - t0

    n = 4 * len(batches)
    print(f"parent retrieved first: {hits}/{n}")
    print(f"scaffold purity of top {screen.k}: {np.mean(same):.3f}")
    print(f"mean neighbours above 0.5: {np.mean(neighbours):.1f}")
    print(f"{1e3 * dt / len(batches):.1f} ms per batch of 4 queries")


if __name__ == "__main__":
    main()
