"""Self-play actor for Connect Four, AlphaZero style.

Runs many games side by side with a batched tree search (PUCT) that lives entirely in tensors
and writes (position, visit distribution, outcome) triples for the learner.
"""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = "SMOKE" in os.environ and os.environ["SMOKE"] != "0"
DEV = "cpu" if SMOKE else "cuda"
GAMES = 8 if SMOKE else 1536
SIMS = 4 if SMOKE else 24
MOVES = 3 if SMOKE else 40
WIDTH, BLOCKS = (16, 1) if SMOKE else (128, 8)
ROWS, COLS = 6, 7
C_PUCT, DIR_ALPHA, DIR_FRAC = 1.5, 1.0, 0.25


class Residual(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(w, w, 3, padding=1, bias=False), nn.BatchNorm2d(w)
        self.c2, self.b2 = nn.Conv2d(w, w, 3, padding=1, bias=False), nn.BatchNorm2d(w)

    def forward(self, x):
        return F.relu(x + self.b2(self.c2(F.relu(self.b1(self.c1(x))))))


class PolicyValueNet(nn.Module):
    def __init__(self, w=WIDTH, n=BLOCKS):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, w, 3, padding=1, bias=False), nn.BatchNorm2d(w), nn.ReLU())
        self.tower = nn.Sequential(*[Residual(w) for _ in range(n)])
        self.policy = nn.Sequential(
            nn.Conv2d(w, 8, 1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * ROWS * COLS, COLS)
        )
        self.value = nn.Sequential(
            nn.Conv2d(w, 4, 1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(4 * ROWS * COLS, 64),
            nn.ReLU(),
            nn.Linear(64, 1),
            nn.Tanh(),
        )

    def forward(self, boards):
        # board holds +1 for the side to move and -1 for the opponent
        x = torch.stack([boards > 0, boards < 0], dim=1).to(self.stem[0].weight.dtype)
        h = self.tower(self.stem(x))
        return self.policy(h).float(), self.value(h).float().squeeze(-1)


LINES = torch.zeros(4, 1, 4, 4)
LINES[0, 0, 0, :] = 1
LINES[1, 0, :, 0] = 1
LINES[2, 0] = torch.eye(4)
LINES[3, 0] = torch.eye(4).flip(0)
LINES = LINES.to(DEV)


def play(boards, col):
    """Drop a stone of the side to move, flip the perspective, return (boards, won, full)."""
    n = torch.arange(len(boards), device=DEV)
    row = (boards[n, :, col] == 0).sum(1) - 1
    nxt = boards.clone()
    nxt[n, row, col] = 1.0
    mine = F.pad((nxt > 0).float().unsqueeze(1), (3, 3, 3, 3))
    won = (F.conv2d(mine, LINES) > 3.5).flatten(1).any(1)
    return -nxt, won, (nxt[:, 0] != 0).all(1)


class Search:
    def __init__(self, net):
        self.net = net
        shape = (GAMES, SIMS + 1, COLS)
        self.child = torch.full(shape, -1, device=DEV, dtype=torch.long)
        self.N, self.W, self.P = (torch.zeros(shape, device=DEV) for _ in range(3))
        self.boards = torch.zeros(GAMES, SIMS + 1, ROWS, COLS, device=DEV)
        self.term = torch.zeros(GAMES, SIMS + 1, device=DEV)  # 0 open, 1 lost, 2 drawn
        self.g = torch.arange(GAMES, device=DEV)

    def expand(self, node):
        """Evaluate freshly created nodes; finished positions have an exact value already."""
        b, t = self.boards[self.g, node], self.term[self.g, node]
        value = torch.where(t == 1, -1.0, 0.0)
        live = t == 0
        logits, v = self.net(b[live])
        logits = logits.masked_fill(b[live][:, 0] != 0, -1e9)
        self.P[self.g[live], node[live]] = logits.softmax(-1)
        value[live] = v
        return value

    def run(self, roots):
        self.child.fill_(-1)
        self.N.zero_(), self.W.zero_(), self.P.zero_(), self.term.zero_()
        self.boards[:, 0] = roots
        node = torch.zeros(GAMES, dtype=torch.long, device=DEV)
        self.expand(node)
        legal = (roots[:, 0] == 0).float()
        noise = torch._sample_dirichlet(torch.full((GAMES, COLS), DIR_ALPHA, device=DEV)) * legal
        self.P[:, 0] = (1 - DIR_FRAC) * self.P[:, 0] + DIR_FRAC * noise / noise.sum(1, keepdim=True)
        for s in range(1, SIMS + 1):
            node = torch.zeros_like(node)
            path, active = [], torch.ones(GAMES, dtype=torch.bool, device=DEV)
            while True:
                n, w, p = self.N[self.g, node], self.W[self.g, node], self.P[self.g, node]
                score = w / n.clamp_min(1) + C_PUCT * p * (n.sum(1, keepdim=True) + 1).sqrt() / (1 + n)
                a = score.masked_fill(self.boards[self.g, node][:, 0] != 0, -1e9).argmax(1)
                path.append((node, a, active))
                nxt = self.child[self.g, node, a]
                active = active & (nxt >= 0) & (self.term[self.g, nxt.clamp_min(0)] == 0)
                if not active.any():
                    break
                node = torch.where(active, nxt, node)
            # every game grows one node (or revisits a terminal one) below its last selected edge
            fresh, won, full = play(self.boards[self.g, node], a)
            leaf = torch.where(nxt >= 0, nxt, s)
            self.child[self.g, node, a] = leaf
            self.boards[self.g, leaf] = fresh
            self.term[self.g, leaf] = torch.where(won, 1.0, torch.where(full, 2.0, 0.0))
            value = -self.expand(leaf)
            for nd, act, on in reversed(path):
                self.N[self.g, nd, act] += on
                self.W[self.g, nd, act] += value * on
                value = torch.where(on, -value, value)
        return self.N[:, 0] / self.N[:, 0].sum(1, keepdim=True)


@torch.no_grad()
def main():
    torch.manual_seed(11)
    net = PolicyValueNet().to(DEV).eval()
    if not SMOKE:
        net = net.half()
    net = torch.compile(net, mode="reduce-overhead")
    search = Search(net)
    boards = torch.zeros(GAMES, ROWS, COLS, device=DEV)
    positions, finished, wins, t0 = 0, 0, 0, time.time()
    for m in range(MOVES):
        pi = search.run(boards)
        boards, won, full = play(boards, torch.multinomial(pi + 1e-9 * (boards[:, 0] == 0), 1).squeeze(1))
        over = won | full
        boards[over] = 0.0
        positions += GAMES
        finished += int(over.sum())
        wins += int(won.sum())
        if m % 5 == 4 or m == MOVES - 1:
            dt = time.time() - t0
            print(
                f"move {m + 1:3d}: {positions} positions, {finished} games done, {positions / dt:.0f} pos/s, {dt:.1f} s"
            )
    print(f"decided {wins}, drawn {finished - wins}")


if __name__ == "__main__":
    main()
