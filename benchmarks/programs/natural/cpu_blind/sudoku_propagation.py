"""Batch solver for sudokus of a puzzle magazine: constraint propagation + tree search on tensors.

A board is a boolean tensor of candidates (row, column, digit).  Many boards are propagated
together (naked and hidden singles) until nothing changes; boards that stay open are split at
the cell with the fewest candidates and put back on the stack; contradictions are dropped.
"""

import random
import time

import torch

PUZZLES = 1200
CHUNK = 320
CLUES = (24, 29)


def random_solution(rng):
    """A valid filled grid: the canonical pattern with bands, rows, columns and digits shuffled."""
    base = [[(3 * (r % 3) + r // 3 + c) % 9 for c in range(9)] for r in range(9)]
    rows = [3 * b + r for b in rng.sample(range(3), 3) for r in rng.sample(range(3), 3)]
    cols = [3 * b + c for b in rng.sample(range(3), 3) for c in rng.sample(range(3), 3)]
    digits = rng.sample(range(9), 9)
    return torch.tensor([[digits[base[r][c]] for c in cols] for r in rows])


def make_puzzles(n, seed=2):
    rng = random.Random(seed)
    boards = torch.ones(n, 9, 9, 9, dtype=torch.bool)
    for i in range(n):
        sol = random_solution(rng)
        for cell in rng.sample(range(81), rng.randint(*CLUES)):
            r, c = divmod(cell, 9)
            boards[i, r, c] = False
            boards[i, r, c, sol[r, c]] = True
    return boards


def box_sum(x):
    """Sum over each 3x3 box, spread back to the cells; x is (B, 9, 9, 9) of small integers."""
    b = x.view(-1, 3, 3, 3, 3, 9).sum(dim=(2, 4), keepdim=True, dtype=x.dtype)
    return b.expand(-1, 3, 3, 3, 3, 9).reshape(x.shape)


@torch.compile
def propagate(cand, max_sweeps=60):
    """Eliminates candidates until the whole batch is at its fixed point."""
    sweeps = 0
    while sweeps < max_sweeps:
        # naked singles: a decided cell forbids its digit to its peers
        decided = (cand.sum(-1, keepdim=True) == 1) & cand
        d = decided.to(torch.int16)
        in_row = d.sum(2, keepdim=True, dtype=torch.int16)
        in_col = d.sum(1, keepdim=True, dtype=torch.int16)
        peers = in_row + in_col + box_sum(d) - 3 * d
        new = cand & (peers == 0)
        # hidden singles: a digit that has one place left in a unit
        n = new.to(torch.int16)
        row_places = n.sum(2, keepdim=True, dtype=torch.int16)
        col_places = n.sum(1, keepdim=True, dtype=torch.int16)
        box_places = box_sum(n)
        only = new & ((row_places == 1) | (col_places == 1) | (box_places == 1))
        new = torch.where(only.any(-1, keepdim=True), only, new)
        sweeps += 1
        if torch.equal(new, cand):
            break
        cand = new
    count = cand.sum(-1)
    empty = (count == 0).flatten(1).any(1)
    lost = (~cand.any(1)).flatten(1).any(1) | (~cand.any(2)).flatten(1).any(1)
    solved = (count == 1).flatten(1).all(1)
    return cand, empty | lost, solved, sweeps


def branch(cand):
    """Two children of each open board: the tightest cell takes a digit / loses this digit."""
    count = cand.sum(-1).flatten(1)
    cell = torch.where(count > 1, count, 99).argmin(1)
    flat = cand.flatten(1, 2)
    rows = torch.arange(len(cand))
    digit = flat[rows, cell].int().argmax(-1)
    take, drop = flat.clone(), flat.clone()
    take[rows, cell] = False
    take[rows, cell, digit] = True
    drop[rows, cell, digit] = False
    return drop.view_as(cand), take.view_as(cand)


def verify(cand):
    one = cand.int()
    boxes = one.view(-1, 3, 3, 3, 3, 9).sum((2, 4))
    return ((one.sum(1) == 1).all() & (one.sum(2) == 1).all() & (boxes == 1).all()).item()


@torch.no_grad()
def main():
    puzzles = make_puzzles(PUZZLES)
    boards, owner = puzzles.clone(), torch.arange(PUZZLES)
    answer = torch.zeros_like(puzzles)
    done = torch.zeros(PUZZLES, dtype=torch.bool)
    calls = sweeps_total = nodes = 0
    t0 = time.perf_counter()
    while len(boards):
        chunk, chunk_owner = boards[-CHUNK:], owner[-CHUNK:]
        boards, owner = boards[:-CHUNK], owner[:-CHUNK]
        cand, dead, solved, sweeps = propagate(chunk)
        calls, sweeps_total, nodes = calls + 1, sweeps_total + sweeps, nodes + len(chunk)
        good = solved & ~dead
        answer[chunk_owner[good]] = cand[good]
        done[chunk_owner[good]] = True
        still = ~dead & ~solved & ~done[chunk_owner]
        drop, take = branch(cand[still])
        boards = torch.cat([boards, drop, take])
        owner = torch.cat([owner, chunk_owner[still], chunk_owner[still]])
        keep = ~done[owner]
        boards, owner = boards[keep], owner[keep]
        if calls % 10 == 0:
            print(
                f"call {calls:4d}  solved {int(done.sum()):5d}  stack {len(boards):5d}  "
                f"sweeps/call {sweeps_total / calls:.1f}"
            )
    ok = verify(answer) and bool((answer & ~puzzles).sum() == 0)
    print(
        f"{int(done.sum())}/{PUZZLES} solved, {nodes} nodes, {calls} calls, "
        f"{time.perf_counter() - t0:.2f} s, verified {ok}"
    )
    assert ok and done.all()


if __name__ == "__main__":
    main()
