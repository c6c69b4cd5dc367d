"""Monte-Carlo evaluation of Othello openings.

Every opening line is scored by a large number of uniformly random playouts.
Boards are bitboards in int64 (bit 0 = a1, bit 63 = h8), all games of one
opening are advanced in lock step.
"""

import time

import torch

NUM_GAMES = 32768
FULL = (1 << 64) - 1
FILE_A = 0x0101010101010101
FILE_H = 0x8080808080808080


def s64(x):
    """unsigned 64 bit literal -> the signed value torch.int64 wants"""
    x &= FULL
    return x - (1 << 64) if x >= (1 << 63) else x


NOT_A, NOT_H = s64(FULL ^ FILE_A), s64(FULL ^ FILE_H)
# (shift, mask applied after the shift); positive = towards h8
DIRECTIONS = [
    (8, -1),
    (1, NOT_A),
    (9, NOT_A),
    (7, NOT_H),
    (-8, s64((1 << 56) - 1)),
    (-1, s64((FULL ^ FILE_H) & ((1 << 63) - 1))),
    (-9, s64((FULL ^ FILE_H) & ((1 << 55) - 1))),
    (-7, s64((FULL ^ FILE_A) & ((1 << 57) - 1))),
]
SQUARES = torch.arange(64)
OPENINGS = {
    "tiger": "f5d6c3d3c4",
    "rose": "f5d6c5f4e3",
    "buffalo": "f5f6e6f4c3",
    "cow": "f5f6e6f4e3",
    "heath": "f5f6e6f4g5",
    "parallel": "f5f4",
    "no-kung": "f5d6c5f4e3c6d3f6e6d7",
    "chimney": "f5d6c4",
}


def shift(x, step, mask):
    x = x << step if step > 0 else x >> -step
    return x & mask


def legal_moves(own, opp):
    empty = ~(own | opp)
    moves = torch.zeros_like(own)
    for step, mask in DIRECTIONS:
        run = shift(own, step, mask) & opp
        for _ in range(5):
            run = run | (shift(run, step, mask) & opp)
        moves = moves | (shift(run, step, mask) & empty)
    return moves


def flips_of(move, own, opp):
    flips = torch.zeros_like(own)
    for step, mask in DIRECTIONS:
        run = shift(move, step, mask) & opp
        for _ in range(5):
            run = run | (shift(run, step, mask) & opp)
        closed = (shift(run, step, mask) & own) != 0
        flips = flips | torch.where(closed, run, torch.zeros_like(run))
    return flips


def put(own, opp, move):
    flips = flips_of(move, own, opp)
    return opp & ~flips, own | flips | move


@torch.compile
def random_ply(own, opp, passed):
    """One random half move for every game; returns boards with sides swapped."""
    moves = legal_moves(own, opp)
    bits = (moves.unsqueeze(-1) >> SQUARES) & 1
    keys = torch.rand(bits.shape)
    square = torch.where(bits.bool(), keys, -1.0).argmax(dim=-1)
    can_move = moves != 0
    move = torch.where(can_move, torch.ones_like(own) << square, torch.zeros_like(own))
    own, opp = put(own, opp, move)
    over = ~can_move & passed
    return own, opp, ~can_move, over.all()


def count(board):
    return ((board.unsqueeze(-1) >> SQUARES) & 1).sum(-1)


def setup(line):
    black = s64((1 << 28) | (1 << 35))
    white = s64((1 << 27) | (1 << 36))
    own, opp = torch.tensor([black]), torch.tensor([white])
    for k in range(0, len(line), 2):
        sq = (ord(line[k]) - 97) + 8 * (int(line[k + 1]) - 1)
        move = torch.tensor([s64(1 << sq)])
        if not (legal_moves(own, opp) & move).item():
            raise ValueError(f"illegal move {line[k : k + 2]} in {line}")
        own, opp = put(own, opp, move)
    return own, opp, (len(line) // 2) % 2


def playouts(line):
    own, opp, side = setup(line)
    own, opp = own.repeat(NUM_GAMES), opp.repeat(NUM_GAMES)
    passed = torch.zeros(NUM_GAMES, dtype=torch.bool)
    plies = 0
    while plies < 80:
        own, opp, passed, finished = random_ply(own, opp, passed)
        plies += 1
        side ^= 1
        if finished:
            break
    diff = count(own) - count(opp)
    return (-diff if side else diff).double(), plies


def main():
    torch.manual_seed(2024)
    table = {}
    for name, line in OPENINGS.items():
        t0 = time.perf_counter()
        diff, plies = playouts(line)
        dt = time.perf_counter() - t0
        win = (diff > 0).double().mean() + 0.5 * (diff == 0).double().mean()
        table[name] = win.item()
        print(
            f"{name:9s} black {win:.4f}  disc diff {diff.mean():+.2f} +- "
            f"{diff.std() / NUM_GAMES**0.5:.2f}  ({plies} plies, {1e3 * dt / plies:.1f} ms/ply)"
        )
    best = max(table, key=table.get)
    print("best opening for black:", best)


if __name__ == "__main__":
    main()
