"""Equilibrium base-pair ensembles of small RNAs: a McCaskill-style partition function over nested structures.

Simplified energy model: stacking-free pair energies, hairpins of at least 3 bases.  Everything in log space,
a batch of sequences at a time, filled from short spans to long ones.
Used here to ask how much single mutations of a riboswitch-like sequence change its ensemble free energy.
"""

import torch

torch.manual_seed(5)

N = 220  # sequence length
BATCH = 24
ROUNDS = 6
KT = 0.6163  # kcal/mol at 37 C
MIN_LOOP = 3
NEG = -1e9

A, C, G, U = range(4)
PAIR_ENERGY = torch.full((4, 4), float("inf"))
for x, y, e in ((G, C, -2.4), (A, U, -1.1), (G, U, -0.4)):
    PAIR_ENERGY[x, y] = e
    PAIR_ENERGY[y, x] = e


def pair_weights(seq):
    """log Boltzmann weight for each pair (i, j); NEG where the bases cannot pair or are too close."""
    e = PAIR_ENERGY[seq[:, :, None], seq[:, None, :]]
    w = torch.where(torch.isinf(e), torch.tensor(NEG), -(e + 1.0) / KT)
    i = torch.arange(seq.shape[1])
    close = (i[None, :] - i[:, None]) <= MIN_LOOP
    return w.masked_fill(close, NEG)


@torch.compile
def fill_span(q, qb, logw, span):
    """Write all intervals of `span` bases.

    q[b, i, s]   log partition function of the s bases that start at i
    qb[b, j, s]  the same for s bases that END at j and whose ends pair with each other
    """
    n = logw.shape[1]
    count = n - span + 1
    closed = logw.diagonal(offset=span - 1, dim1=1, dim2=2) + q[:, 1 : count + 1, span - 2]
    qb[:, span - 1 : n, span] = closed

    unpaired_end = q[:, :count, span - 1]
    left = q[:, :count, :span]
    right = qb[:, span - 1 : n, 1 : span + 1].flip(-1)
    paired_end = torch.logsumexp(left + right, dim=-1)
    q[:, :count, span] = torch.logaddexp(unpaired_end, paired_end)


def partition_function(seq):
    b, n = seq.shape
    logw = pair_weights(seq)
    q = torch.full((b, n + 1, n + 1), NEG)
    q[:, :, : MIN_LOOP + 2] = 0.0
    qb = torch.full((b, n, n + 1), NEG)
    for span in range(MIN_LOOP + 2, n + 1):
        fill_span(q, qb, logw, span)
    return q[:, 0, n]


def designed_sequence():
    """Three hairpins separated by random linkers."""
    comp = {A: U, U: A, G: C, C: G}
    out = []
    for _ in range(3):
        stem = torch.randint(0, 4, (18,)).tolist()
        out += stem + [A] * 6 + [comp[x] for x in reversed(stem)]
        out += torch.randint(0, 4, (30,)).tolist()
    return torch.tensor((out + [A] * N)[:N])


def brute_check():
    """Poly-A cannot pair: exactly one structure."""
    z = partition_function(torch.zeros(BATCH, N, dtype=torch.long))
    return z.abs().max().item()


def main():
    print(f"poly-A log Z (should be 0): {brute_check():.2e}")
    wild = designed_sequence()
    base = None
    deltas, sites = [], []
    for r in range(ROUNDS):
        batch = wild.repeat(BATCH, 1)
        pos = torch.randint(0, N, (BATCH,))
        shift = torch.randint(1, 4, (BATCH,))
        rows = torch.arange(1, BATCH)
        batch[rows, pos[1:]] = (batch[rows, pos[1:]] + shift[1:]) % 4
        free = -KT * partition_function(batch)
        if base is None:
            base = free[0].item()
            print(f"wild type ensemble free energy {base:.2f} kcal/mol")
        deltas.append(free[1:] - base)
        sites.append(pos[1:])
    d = torch.cat(deltas)
    s = torch.cat(sites)
    worst = d.topk(5)
    print(f"{len(d)} mutants: mean ddG {d.mean():.3f}, sd {d.std():.3f}")
    for v, i in zip(worst.values, worst.indices):
        print(f"  position {s[i].item():4d}  ddG {v.item():+.2f}")


if __name__ == "__main__":
    main()
