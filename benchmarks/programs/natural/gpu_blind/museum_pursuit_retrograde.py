"""How many moves do two night guards need to corner an intruder? Exact answer by retrograde analysis.

State: (guard 1, guard 2, intruder, who moves), each on a cell of the floor plan. The guards move together, then the
intruder; everybody may stay. V is the number of rounds until capture with best play (INF: never).
Several candidate floor plans are solved and compared.
"""

import time

import numpy as np
import torch

device = "cuda"
torch.manual_seed(1)
rng = np.random.default_rng(1)

ROWS, COLS = 22, 24
N_PLANS = 12
INF = 30000


def connected_part(open_cells):
    """Keep the largest connected part of the plan."""
    label = -np.ones_like(open_cells, dtype=int)
    best, best_size = 0, 0
    for r, c in zip(*np.nonzero(open_cells)):
        if label[r, c] >= 0:
            continue
        mark = r * open_cells.shape[1] + c
        stack, size = [(r, c)], 0
        label[r, c] = mark
        while stack:
            i, j = stack.pop()
            size += 1
            for di, dj in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                a, b = i + di, j + dj
                if 0 <= a < open_cells.shape[0] and 0 <= b < open_cells.shape[1]:
                    if open_cells[a, b] and label[a, b] < 0:
                        label[a, b] = mark
                        stack.append((a, b))
        if size > best_size:
            best, best_size = mark, size
    return label == best


def floor_plan():
    """Rooms with walls that have doors, and some display cases."""
    plan = np.ones((ROWS, COLS), bool)
    for r in range(5, ROWS - 2, 6):
        plan[r, :] = False
        plan[r, rng.choice(COLS, 4, replace=False)] = True
    for c in range(6, COLS - 2, 7):
        plan[:, c] = False
        plan[rng.choice(ROWS, 5, replace=False), c] = True
    cases = rng.random((ROWS, COLS)) < 0.05
    return connected_part(plan & ~cases)


def neighbour_table(plan):
    cells = np.argwhere(plan)
    number = -np.ones(plan.shape, int)
    number[plan] = np.arange(len(cells))
    table = np.zeros((len(cells), 5), int)
    for k, (r, c) in enumerate(cells):
        table[k] = k  # staying, also in place of a blocked direction
        for d, (dr, dc) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
            a, b = r + dr, c + dc
            if 0 <= a < plan.shape[0] and 0 <= b < plan.shape[1] and plan[a, b]:
                table[k, d + 1] = number[a, b]
    return torch.from_numpy(table).to(device)


@torch.compile
def backup(v, nbr, caught):
    """One round backward: v is the value with the guards to move."""
    # the intruder replies with the best of its moves
    w = v[:, :, nbr[:, 0]]
    for d in range(1, 5):
        w = torch.maximum(w, v[:, :, nbr[:, d]])
    w = torch.where(caught, torch.zeros_like(w), w)
    # guard 1, then guard 2 choose
    m = w[nbr[:, 0]]
    for d in range(1, 5):
        m = torch.minimum(m, w[nbr[:, d]])
    u = m[:, nbr[:, 0]]
    for d in range(1, 5):
        u = torch.minimum(u, m[:, nbr[:, d]])
    u = torch.where(u < INF, u + 1, u)
    u = torch.where(caught, torch.zeros_like(u), u)
    changed = (u != v).sum()
    return u, changed


def solve(plan, max_rounds=400):
    nbr = neighbour_table(plan)
    n = len(nbr)
    i = torch.arange(n, device=device)
    caught = (i[:, None, None] == i) | (i[None, :, None] == i)
    v = torch.full((n, n, n), INF, dtype=torch.int16, device=device)
    v = torch.where(caught, torch.zeros_like(v), v)
    for rounds in range(1, max_rounds + 1):
        v, changed = backup(v, nbr, caught)
        if changed.item() == 0:
            break
    return v, rounds


def main():
    for p in range(N_PLANS):
        plan = floor_plan()
        start = time.time()
        v, rounds = solve(plan)
        n = v.shape[0]
        finite = v < INF
        share = finite.float().mean().item()
        longest = int(v[finite].max())
        # guards start together at the first cell; intruder anywhere
        post = v.view(n * n, n).float().amax(dim=1)
        best = int(post.argmin())
        print(
            f"plan {p:2d}: {n} cells, {rounds} rounds, {time.time() - start:.2f} s; won {share:6.1%}, longest {longest}; "
            f"best posts {best // n} and {best % n} (worst case {post[best].item():.0f})"
        )


if __name__ == "__main__":
    main()
