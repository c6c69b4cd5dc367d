"""Container pre-marshalling: sort the stacks of a yard bay so that no container blocks an earlier one.

Beam search over crane moves; a whole layer of the search tree is expanded as one batch of tensors.
"""

import time

import torch

STACKS, TIERS = 9, 6
BEAM = 96
MAX_DEPTH = 48

MOVES = torch.tensor([(i, j) for i in range(STACKS) for j in range(STACKS) if i != j])
HASH = torch.randint(1, 2**40, (STACKS * TIERS,), generator=torch.Generator().manual_seed(3))
BIG = 10**6


def random_bay(gen, fill=40):
    """A bay filled at random; entry = due-out group (1 is first), 0 = empty slot."""
    bay = torch.zeros(STACKS, TIERS, dtype=torch.int64)
    height = [0] * STACKS
    for _ in range(fill):
        while True:
            s = int(torch.randint(STACKS, (1,), generator=gen))
            if height[s] < TIERS:
                break
        bay[s, height[s]] = int(torch.randint(1, 31, (1,), generator=gen))
        height[s] += 1
    return bay


def blocking(bays):
    """How many containers stand above one that has to leave earlier. bays: ... x STACKS x TIERS."""
    due = torch.where(bays > 0, bays, BIG)
    below = torch.cummin(due, dim=-1).values
    below = torch.cat([torch.full_like(below[..., :1], BIG), below[..., :-1]], dim=-1)
    return (bays > 0) & (bays > below)


@torch.compile
def expand(bays, last_to):
    """All children of a beam, scored and cut down to the best BEAM different ones."""
    n, m = bays.shape[0], MOVES.shape[0]
    height = (bays > 0).sum(-1)  # n x S
    src, dst = MOVES[:, 0], MOVES[:, 1]
    h_src, h_dst = height[:, src], height[:, dst]  # n x m
    legal = (h_src > 0) & (h_dst < TIERS) & (src[None] != last_to[:, None])

    s_tier = (h_src - 1).clamp_min(0)
    d_tier = h_dst.clamp_max(TIERS - 1)
    flat = bays.reshape(n, 1, STACKS * TIERS).expand(n, m, STACKS * TIERS)
    s_pos = (src[None] * TIERS + s_tier).unsqueeze(-1)
    d_pos = (dst[None] * TIERS + d_tier).unsqueeze(-1)
    box = flat.gather(2, s_pos)
    child = flat.scatter(2, s_pos, torch.zeros_like(box)).scatter(2, d_pos, box)
    child = child.view(n, m, STACKS, TIERS)

    bad = blocking(child)
    n_bad = bad.sum((-1, -2))
    # look ahead: each stack's lowest blocking tier costs the moves of all above it
    tiers = torch.arange(TIERS)
    first_bad = torch.where(bad, tiers, TIERS).amin(-1)
    depth_over = ((child > 0).sum(-1) - first_bad).clamp_min(0).sum(-1)
    # a gap between neighbours in a good stack wastes room
    top_due = torch.where(child > 0, child, BIG).amin(-1).clamp_max(32)
    spread = (top_due.float() - top_due.float().mean(-1, keepdim=True)).abs().mean(-1)
    score = n_bad.float() * 4 + depth_over.float() * 1.5 - 0.05 * spread
    score = torch.where(legal, score, torch.inf).flatten()

    key = (child.flatten(2) * HASH).sum(-1).flatten()
    order = torch.argsort(key)
    sorted_key = key[order]
    dup_sorted = torch.cat([torch.zeros(1, dtype=torch.bool), sorted_key[1:] == sorted_key[:-1]])
    dup = torch.zeros_like(dup_sorted).scatter(0, order, dup_sorted)
    score = torch.where(dup, torch.inf, score)

    best, idx = torch.topk(score, BEAM, largest=False)
    chosen = child.flatten(0, 1)[idx]
    return chosen, best, n_bad.flatten()[idx], idx // m, dst[idx % m]


def solve(bay):
    bays = bay.expand(BEAM, STACKS, TIERS).contiguous()
    last_to = torch.full((BEAM,), -1)
    trail = []
    for depth in range(1, MAX_DEPTH + 1):
        bays, score, n_bad, parent, last_to = expand(bays, last_to)
        trail.append((parent, last_to))
        done = (n_bad == 0) & torch.isfinite(score)
        if done.any():
            k = int(done.nonzero()[0])
            path = []
            for parent, dst in reversed(trail):
                path.append(int(dst[k]))
                k = int(parent[k])
            return depth, path[::-1]
    return None, []


def main():
    gen = torch.Generator().manual_seed(21)
    bays = [random_bay(gen) for _ in range(6)]
    lower = [int(blocking(b).sum()) for b in bays]
    t0 = time.perf_counter()
    moves = []
    for n, b in enumerate(bays):
        depth, path = solve(b)
        moves.append(depth)
        print(f"bay {n:2d}: {lower[n]:2d} blocking, solved in {depth} moves, first {path[:6]}")
    solved = [(m, l) for m, l in zip(moves, lower) if m is not None]
    gap = sum(m - l for m, l in solved) / max(1, len(solved))
    print(
        f"solved {len(solved)} of {len(bays)}, mean gap to the bound {gap:.2f}, "
        f"{time.perf_counter() - t0:.2f} s"
    )


if __name__ == "__main__":
    main()
