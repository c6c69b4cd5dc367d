"""Solve poker river subgames by discounted counterfactual regret minimisation.

Both players hold one of H hand combinations; the public betting tree is small (check, two bet sizes, one raise), and
several boards are solved at once as a batch. Every iteration walks the tree once and updates regrets and the average
strategy of both players.
"""

import time

import torch
import torch.nn as nn

FOLD, CALL, CHECK = "fold", "call", "check"


class Node:
    def __init__(self, player, actions, children, index):
        self.player, self.actions, self.children, self.index = player, actions, children, index


class Terminal:
    def __init__(self, kind, pot, loser=None):
        self.kind, self.pot, self.loser = kind, pot, loser  # pot: what the loser has put in


def build_tree(pot=2.0, stack=12.0, sizes=(0.5, 1.0)):
    nodes = []

    def facing(player, committed, bet, raises):
        index = len(nodes)
        nodes.append(None)
        actions, children = [FOLD, CALL], []
        children.append(Terminal("fold", committed, loser=player))
        children.append(Terminal("showdown", committed + bet))
        if raises < 2 and committed + bet < stack:
            extra = min(2.0 * (committed + bet), stack - committed - bet)
            actions.append("raise")
            children.append(facing(1 - player, committed + bet, extra, raises + 1))
        nodes[index] = Node(player, actions, children, index)
        return nodes[index]

    def open_action(player, committed, first):
        index = len(nodes)
        nodes.append(None)
        actions, children = (
            [CHECK],
            [open_action(1, committed, False) if first else Terminal("showdown", committed)],
        )
        for s in sizes:
            actions.append(f"bet{s}")
            children.append(facing(1 - player, committed, min(2 * s * committed, stack - committed), 0))
        nodes[index] = Node(player, actions, children, index)
        return nodes[index]

    root = open_action(0, pot / 2, True)
    return root, nodes


class RiverSolver(nn.Module):
    def __init__(self, boards, hands, alpha=1.5, beta=0.5, gamma=2.0, seed=0):
        super().__init__()
        g = torch.Generator().manual_seed(seed)
        self.root, self.nodes = build_tree()
        self.alpha, self.beta, self.gamma = alpha, beta, gamma
        self.t = 0
        for node in self.nodes:
            shape = (len(node.actions), boards, hands)
            self.register_buffer(f"regret_{node.index}", torch.zeros(shape))
            self.register_buffer(f"average_{node.index}", torch.zeros(shape))
        strength = torch.randn(boards, hands, generator=g)
        compatible = (torch.rand(boards, hands, hands, generator=g) > 0.09).float()
        compatible = torch.triu(compatible, 1)
        compatible = compatible + compatible.transpose(1, 2)
        win = torch.sign(strength[:, :, None] - strength[:, None, :])
        self.register_buffer("compatible", compatible)
        self.register_buffer("showdown", win * compatible)
        self.register_buffer("prior", torch.softmax(0.5 * torch.randn(2, boards, hands, generator=g), -1))

    def strategy(self, node):
        pos = getattr(self, f"regret_{node.index}").clamp(min=0)
        norm = pos.sum(0, keepdim=True)
        return torch.where(
            norm > 1e-9, pos / norm.clamp(min=1e-9), torch.full_like(pos, 1.0 / len(node.actions))
        )

    def leaf_values(self, leaf, reach):
        if leaf.kind == "showdown":
            v = [leaf.pot * torch.bmm(self.showdown, reach[1 - p][..., None]).squeeze(-1) for p in (0, 1)]
        else:
            v = [
                (-leaf.pot if leaf.loser == p else leaf.pot)
                * torch.bmm(self.compatible, reach[1 - p][..., None]).squeeze(-1)
                for p in (0, 1)
            ]
        return v

    def walk(self, node, reach):
        if isinstance(node, Terminal):
            return self.leaf_values(node, reach)
        p = node.player
        sigma = self.strategy(node)
        own, other = [], 0.0
        for a, child in enumerate(node.children):
            nxt = list(reach)
            nxt[p] = reach[p] * sigma[a]
            v = self.walk(child, nxt)
            own.append(v[p])
            other = other + v[1 - p]
        own = torch.stack(own)
        value = (sigma * own).sum(0)
        regret = getattr(self, f"regret_{node.index}")
        average = getattr(self, f"average_{node.index}")
        # DCFR: old positive and negative regrets are discounted differently
        up = self.t**self.alpha / (self.t**self.alpha + 1.0)
        regret.mul_(torch.where(regret > 0, up, self.beta)).add_(own - value)
        average.mul_((self.t / (self.t + 1.0)) ** self.gamma).add_(reach[p] * sigma)
        return [value, other] if p == 0 else [other, value]

    def forward(self):
        self.t += 1
        values = self.walk(self.root, [self.prior[0], self.prior[1]])
        return (values[0] * self.prior[0]).sum(-1)  # value of the game for the first player, by board


def mean_frequencies(solver):
    avg = solver.average_0
    avg = avg / avg.sum(0, keepdim=True).clamp(min=1e-9)
    return (avg * solver.prior[0]).sum(-1).mean(-1)


def main():
    torch.manual_seed(0)
    solver = RiverSolver(boards=6, hands=240)
    print(f"{len(solver.nodes)} decision nodes")
    iterate = torch.compile(solver)
    iterations = 200
    last = time.perf_counter()
    with torch.no_grad():
        for it in range(1, iterations + 1):
            ev = iterate()
            if it % 50 == 0:
                now = time.perf_counter()
                f = ", ".join(
                    f"{a} {x:.3f}" for a, x in zip(solver.root.actions, mean_frequencies(solver).tolist())
                )
                print(f"iter {it:4d} ev {ev.mean():+.4f} root: {f}  ({(now - last) / 50 * 1e3:.1f} ms/iter)")
                last = now
    assert torch.isfinite(ev).all()


if __name__ == "__main__":
    main()
