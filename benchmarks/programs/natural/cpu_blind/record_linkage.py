"""Probabilistic record linkage: Levenshtein similarity of names inside postcode blocks,
Fellegi-Sunter weights, and a best-match pick per record."""

import random
import time

import torch

L = 16
PAD = 0


def encode(names):
    out = torch.zeros(len(names), L, dtype=torch.uint8)
    for i, s in enumerate(names):
        s = s[:L]
        out[i, : len(s)] = torch.tensor([ord(c) - 96 for c in s], dtype=torch.uint8)
    return out


def corrupt(s, rng):
    s = list(s)
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        p = rng.randrange(len(s))
        op = rng.random()
        if op < 0.4:
            s[p] = rng.choice("abcdefghijklmnopqrstuvwxyz")
        elif op < 0.7 and len(s) > 3:
            del s[p]
        else:
            s.insert(p, rng.choice("aeioulnrst"))
    return "".join(s)


def make_tables(n, rng):
    syll = [
        "an",
        "be",
        "cor",
        "dal",
        "el",
        "fin",
        "gar",
        "hol",
        "is",
        "jo",
        "kel",
        "lin",
        "mor",
        "nic",
        "os",
        "per",
    ]
    name = lambda: "".join(rng.choice(syll) for _ in range(rng.randint(2, 5)))
    base = [(name(), name(), rng.randint(1930, 2005), rng.randint(0, 1)) for _ in range(n)]
    blocks = torch.tensor(
        [rng.choices(range(48), weights=[1 + b % 7 for b in range(48)])[0] for _ in range(n)]
    )
    a = (
        encode([r[0] for r in base]),
        encode([r[1] for r in base]),
        torch.tensor([r[2] for r in base]),
        torch.tensor([r[3] for r in base]),
    )
    year = lambda y: y + (rng.choice([-1, 1, 10]) if rng.random() < 0.08 else 0)
    b = (
        encode([corrupt(r[0], rng) for r in base]),
        encode([corrupt(r[1], rng) for r in base]),
        torch.tensor([year(r[2]) for r in base]),
        torch.tensor([r[3] for r in base]),
    )
    return a, b, blocks


def levenshtein(a, b):
    """Row-wise edit distance of padded strings [P, L], deletions via a running minimum."""
    la = (a != PAD).sum(1)
    lb = (b != PAD).sum(1)
    ar = torch.arange(L + 1, dtype=torch.int32, device=a.device)
    prev = ar.expand(a.shape[0], L + 1)
    for i in range(L):
        sub = (a[:, i : i + 1] != b).int()
        cand = torch.minimum(prev[:, 1:] + 1, prev[:, :-1] + sub)
        row = torch.cat([torch.full_like(cand[:, :1], i + 1), cand], dim=1)
        row = torch.cummin(row - ar, dim=1).values + ar
        prev = torch.where((i < la).unsqueeze(1), row, prev)
    dist = prev.gather(1, lb.unsqueeze(1)).squeeze(1)
    return 1.0 - dist.float() / torch.maximum(la, lb).clamp(min=1).float()


WEIGHTS = torch.tensor([[5.5, 3.0, 0.5, -3.5], [6.5, 3.5, 0.7, -4.0]])
CUTS = torch.tensor([0.65, 0.80, 0.95])


@torch.compile
def score_pairs(fa, la, ya, sa, fb, lb, yb, sb):
    sim = torch.stack([levenshtein(fa, fb), levenshtein(la, lb)])
    level = 3 - torch.bucketize(sim, CUTS)
    w = WEIGHTS.gather(1, level).sum(0)
    dy = (ya - yb).abs()
    w = w + torch.where(dy == 0, 4.2, torch.where(dy <= 1, 0.8, -2.5))
    return w + torch.where(sa == sb, 0.9, -3.0)


def link_block(a, b, members, max_pairs=12000):
    m = len(members)
    rows = max(1, max_pairs // m)
    best_w, best_j = [], []
    for chunk in members.split(rows):
        i = chunk.repeat_interleave(m)
        j = members.repeat(len(chunk))
        w = score_pairs(*(c[i] for c in a), *(c[j] for c in b)).view(len(chunk), m)
        top = w.max(1)
        best_w.append(top.values)
        best_j.append(members[top.indices])
    return torch.cat(best_w), torch.cat(best_j)


def main():
    rng = random.Random(5)
    a, b, blocks = make_tables(6000, rng)
    t0 = time.time()
    right = total = pairs = 0
    for blk in range(48):
        members = (blocks == blk).nonzero().squeeze(1)
        w, j = link_block(a, b, members)
        linked = w > 6.0
        right += int(((j == members) & linked).sum())
        total += int(linked.sum())
        pairs += len(members) ** 2
        if blk % 8 == 7:
            dt = time.time() - t0
            print(
                f"block {blk:2d}: {pairs} pairs, {pairs / dt / 1e3:.0f} kpair/s, precision {right / max(total, 1):.4f}"
            )
    print(f"linked {total} of {len(blocks)}; recall {right / len(blocks):.4f}; {time.time() - t0:.1f} s")


if __name__ == "__main__":
    main()
