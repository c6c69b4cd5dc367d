"""Wave function collapse for dungeon floors, many floors at a time.

Tiles are corridor pieces with open or closed sides; neighbours must agree on
their shared side and the border is closed.  In each round every floor collapses its
cell of lowest entropy, then constraints are propagated to a fixed point.  Floors
that reach a contradiction start again.
"""

import torch

FLOORS, H, W = 48, 20, 20

# (north, east, south, west) open?, weight
TILES = [
    ((0, 0, 0, 0), 6.0),  # rock
    ((1, 0, 1, 0), 3.0),
    ((0, 1, 0, 1), 3.0),  # straights
    ((1, 1, 0, 0), 1.5),
    ((0, 1, 1, 0), 1.5),
    ((0, 0, 1, 1), 1.5),
    ((1, 0, 0, 1), 1.5),
    ((1, 1, 1, 0), 0.6),
    ((0, 1, 1, 1), 0.6),
    ((1, 0, 1, 1), 0.6),
    ((1, 1, 0, 1), 0.6),
    ((1, 1, 1, 1), 0.25),
    ((1, 0, 0, 0), 0.3),
    ((0, 0, 1, 0), 0.3),  # stairs, north and south only
]
SIDES = torch.tensor([t[0] for t in TILES], dtype=torch.bool)
WEIGHT = torch.tensor([t[1] for t in TILES])
GLYPHS = " │─└┌┐┘├┬┤┴┼╵╷"
T = len(TILES)

# compat[d][a, b]: tile b may lie in direction d (N, E, S, W) of tile a
COMPAT = torch.stack([(SIDES[:, d, None] == SIDES[None, :, (d + 2) % 4]) for d in range(4)]).float()


def blank(n):
    wave = torch.ones(n, T, H, W)
    for d, (rows, cols) in enumerate(
        [
            (slice(0, 1), slice(None)),
            (slice(None), slice(W - 1, W)),
            (slice(H - 1, H), slice(None)),
            (slice(None), slice(0, 1)),
        ]
    ):
        wave[:, :, rows, cols] *= (~SIDES[:, d]).float().view(1, T, 1, 1)
    return wave


@torch.compile(fullgraph=True)
def sweep(wave):
    """One pass of arc consistency in the four directions; returns the number of removed options."""
    before = wave.sum()
    for d in range(4):
        support = torch.einsum("ab,nbhw->nahw", COMPAT[d], wave).clamp(max=1.0)
        if d == 0:
            wave[:, :, 1:, :] *= support[:, :, :-1, :]
        elif d == 1:
            wave[:, :, :, :-1] *= support[:, :, :, 1:]
        elif d == 2:
            wave[:, :, :-1, :] *= support[:, :, 1:, :]
        else:
            wave[:, :, :, 1:] *= support[:, :, :, :-1]
    return before - wave.sum()


@torch.compile
def observe(wave, noise, pick):
    """Collapse the lowest entropy cell of each floor that still has a choice."""
    n = wave.shape[0]
    p = wave * WEIGHT.view(1, T, 1, 1)
    total = p.sum(1)
    logp = torch.log(p.clamp(min=1e-9))
    entropy = torch.log(total.clamp(min=1e-9)) - (p * logp).sum(1) / total.clamp(min=1e-9)
    options = wave.sum(1)
    entropy = torch.where(options > 1, entropy + 1e-3 * noise, torch.inf)
    cell = entropy.flatten(1).argmin(1)
    open_floor = (options > 1).flatten(1).any(1)
    r, c = cell // W, cell % W
    rows = torch.arange(n)
    cdf = torch.cumsum(p[rows, :, r, c], 1)
    u = pick[:, None] * cdf[:, -1:]
    tile = torch.searchsorted(cdf, u, right=True).clamp(max=T - 1).squeeze(1)
    only = torch.nn.functional.one_hot(tile, T).float()
    old = wave[rows, :, r, c]
    wave[rows, :, r, c] = torch.where(open_floor[:, None], only, old)
    return open_floor.any()


def propagate(wave):
    passes = 0
    while True:
        removed = sweep(wave)
        passes += 1
        if removed.item() == 0:
            return passes


def main():
    torch.manual_seed(42)
    fresh = blank(1)
    propagate(fresh)
    wave = fresh.expand(FLOORS, -1, -1, -1).clone()
    rounds = passes = restarts = 0
    for _ in range(900):
        more = observe(wave, torch.rand(FLOORS, H, W), torch.rand(FLOORS))
        if not more:
            break
        passes += propagate(wave)
        dead = (wave.sum(1) == 0).flatten(1).any(1)
        if dead.any():
            wave[dead] = fresh
            restarts += int(dead.sum())
        rounds += 1

    tiles = wave.argmax(1)
    done = (wave.sum(1) == 1).flatten(1).all(1)
    corridor = (tiles > 0).float().mean((1, 2))
    print(
        f"rounds {rounds}, sweeps {passes}, restarts {restarts}, finished floors {int(done.sum())}/{FLOORS}"
    )
    print(f"corridor share {corridor.mean():.3f} +- {corridor.std():.3f}")
    counts = torch.bincount(tiles.flatten(), minlength=T)
    print("tile shares", [round(x, 3) for x in (counts / counts.sum()).tolist()])
    best = int(torch.where(done, corridor, -1.0).argmax())
    for row in tiles[best].tolist()[:8]:
        print("".join(GLYPHS[t] for t in row))


if __name__ == "__main__":
    main()
