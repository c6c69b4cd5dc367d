"""Self-play statistics of a greedy 2048 player: many boards at once, moves by table look-up.

A board is (4, 4) exponents (0 is empty).  A row of four exponents is a 16-bit code; tables hold each row's result
and score when it slides left.  The other directions are mirrored or transposed boards.
"""

import time

import torch

torch.manual_seed(2048)

GAMES = 6_000
MAX_MOVES = 500


def slide_left(row):
    tiles = [t for t in row if t]
    out, score, i = [], 0, 0
    while i < len(tiles):
        if i + 1 < len(tiles) and tiles[i] == tiles[i + 1]:
            merged = min(tiles[i] + 1, 15)
            out.append(merged)
            score += 2**merged
            i += 2
        else:
            out.append(tiles[i])
            i += 1
    return out + [0] * (4 - len(out)), score


def build_tables():
    result = torch.empty(65536, 4, dtype=torch.int64)
    gain = torch.empty(65536)
    rows, scores = [], []
    for code in range(65536):
        row = [(code >> 12) & 15, (code >> 8) & 15, (code >> 4) & 15, code & 15]
        new, s = slide_left(row)
        rows.append(new)
        scores.append(s)
    result.copy_(torch.tensor(rows))
    gain.copy_(torch.tensor(scores, dtype=torch.float32))
    return result, gain


RESULT, GAIN = build_tables()
PLACE = torch.tensor([4096, 256, 16, 1])
SNAKE = torch.tensor([[15.0, 14, 13, 12], [8, 9, 10, 11], [7, 6, 5, 4], [0, 1, 2, 3]]) / 15


def move_left(boards):
    codes = (boards * PLACE).sum(-1)  # (games, 4)
    return RESULT[codes], GAIN[codes].sum(-1)


def all_moves(boards):
    """The boards after left, right, up, down: (4, games, 4, 4), and the points gained."""
    up = boards.transpose(1, 2)
    views = [boards, boards.flip(2), up, up.flip(2)]
    moved = [move_left(v) for v in views]
    new = [moved[0][0], moved[1][0].flip(2), moved[2][0].transpose(1, 2), moved[3][0].flip(2).transpose(1, 2)]
    return torch.stack(new), torch.stack([m[1] for m in moved])


def evaluate(boards):
    """Heuristic value: a snake of falling tiles, free cells and smooth neighbours."""
    b = boards.float()
    snake = (torch.exp2(b) * SNAKE).sum((-1, -2))
    free = (boards == 0).float().sum((-1, -2))
    rough = (b[..., 1:, :] - b[..., :-1, :]).abs().sum((-1, -2)) + (b[..., 1:] - b[..., :-1]).abs().sum(
        (-1, -2)
    )
    return snake + 12.0 * free - 2.0 * rough


@torch.compile
def play_turn(boards, alive, score):
    after, gain = all_moves(boards)
    legal = (after != boards).flatten(2).any(-1)
    value = evaluate(after) + gain
    value = torch.where(legal, value, torch.tensor(-1e9))
    choice = value.argmax(0)
    index = torch.arange(boards.shape[0])
    chosen, won = after[choice, index], gain[choice, index]
    can_move = legal.any(0) & alive
    # a new tile on a random free cell: a 4 in one of ten cases
    flat = chosen.reshape(-1, 16)
    lottery = torch.rand(flat.shape) * (flat == 0)
    cell = lottery.argmax(1)
    tile = torch.where(torch.rand(flat.shape[0]) < 0.1, 2, 1)
    spawned = flat.scatter(1, cell[:, None], tile[:, None]).reshape(boards.shape)
    boards = torch.where(can_move[:, None, None], spawned, boards)
    return boards, can_move, score + torch.where(can_move, won, torch.zeros_like(won))


def main():
    boards = torch.zeros(GAMES, 16, dtype=torch.int64)
    starts = torch.rand(GAMES, 16).topk(2, dim=1).indices
    boards = boards.scatter(1, starts, torch.ones_like(starts)).reshape(GAMES, 4, 4)
    alive = torch.ones(GAMES, dtype=torch.bool)
    score = torch.zeros(GAMES)
    moves = torch.zeros(GAMES)
    begin = time.perf_counter()
    for turn in range(MAX_MOVES):
        boards, alive, score = play_turn(boards, alive, score)
        moves += alive
        if turn % 50 == 49:
            print(f"turn {turn + 1:4d}: {alive.sum().item()} games alive, mean score {score.mean():.0f}")
        if not alive.any():
            break
    seconds = time.perf_counter() - begin
    best = boards.flatten(1).max(1).values
    print(f"{moves.sum().item() / seconds:.0f} moves a second")
    for e in range(6, 13):
        print(f"  reached {2**e:5d}: {100 * (best >= e).float().mean():.2f} %")


if __name__ == "__main__":
    main()
