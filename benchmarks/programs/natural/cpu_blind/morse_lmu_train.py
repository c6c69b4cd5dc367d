"""Morse keying labelled sample by sample with a Legendre Memory Unit.

The receiver gives a noisy envelope and a fading estimate; the network says for each sample whether it lies in a dot, a
dash, a gap within a letter, or a gap between letters.  The LMU keeps a sliding window of its input in Legendre
coefficients (Voelker et al., 2019); the cell is written by hand.
"""

import random

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(7)
random.seed(7)

CODES = [
    ".-",
    "-...",
    "-.-.",
    "-..",
    ".",
    "..-.",
    "--.",
    "....",
    "..",
    ".---",
    "-.-",
    ".-..",
    "--",
    "-.",
    "---",
    ".--.",
    "--.-",
    ".-.",
    "...",
    "-",
    "..-",
    "...-",
    ".--",
    "-..-",
    "-.--",
    "--..",
]
T = 96
BATCH = 128
DOT, DASH, GAP, LETTER = range(4)


def keying(length):
    unit = random.uniform(2.5, 4.5)
    labels = []
    while len(labels) < length + 40:
        for symbol in random.choice(CODES):
            kind, n = (DOT, 1) if symbol == "." else (DASH, 3)
            labels += [kind] * max(1, round(unit * n * random.uniform(0.85, 1.2)))
            labels += [GAP] * max(1, round(unit * random.uniform(0.8, 1.2)))
        labels += [LETTER] * round(unit * 2.2)
    cut = random.randrange(40)
    return labels[cut : cut + length]


def batch(n):
    y = torch.tensor([keying(T) for _ in range(n)])
    on = (y <= DASH).float()
    fade = 0.75 + 0.25 * torch.sin(torch.arange(T) / 17.0 + 6.28 * torch.rand(n, 1))
    env = on * fade + 0.22 * torch.randn(n, T).abs()
    return torch.stack([env, fade + 0.05 * torch.randn(n, T)], -1), y


def legendre_matrices(order, theta):
    q = torch.arange(order, dtype=torch.float64)
    r = (2 * q + 1)[:, None] / theta
    i, j = torch.meshgrid(q, q, indexing="ij")
    a = torch.where(i < j, -torch.ones_like(i), (-1.0) ** (i - j + 1)) * r
    b = ((-1.0) ** q)[:, None] * r
    # zero-order hold
    full = torch.zeros(order + 1, order + 1, dtype=torch.float64)
    full[:order, :order], full[:order, order:] = a, b
    ex = torch.linalg.matrix_exp(full)
    return ex[:order, :order].float(), ex[:order, order:].float()


class LMUCell(nn.Module):
    def __init__(self, n_in, hidden, order, units, theta):
        super().__init__()
        a, b = legendre_matrices(order, theta)
        self.register_buffer("A", a)
        self.register_buffer("B", b.squeeze(1))
        self.order, self.units = order, units
        self.enc_x = nn.Linear(n_in, units, bias=False)
        self.enc_h = nn.Linear(hidden, units, bias=False)
        self.enc_m = nn.Linear(units * order, units, bias=False)
        self.wx = nn.Linear(n_in, hidden)
        self.wh = nn.Linear(hidden, hidden, bias=False)
        self.wm = nn.Linear(units * order, hidden, bias=False)
        nn.init.zeros_(self.enc_m.weight)
        nn.init.xavier_normal_(self.wh.weight)
        nn.init.xavier_normal_(self.wm.weight)

    def forward(self, x, state):
        h, m = state
        u = self.enc_x(x) + self.enc_h(h) + self.enc_m(m.flatten(1))
        m = m @ self.A.T + u.unsqueeze(-1) * self.B
        h = torch.tanh(self.wx(x) + self.wh(h) + self.wm(m.flatten(1)))
        return h, m


class Labeller(nn.Module):
    def __init__(self, hidden=192, order=48, units=4):
        super().__init__()
        self.hidden = hidden
        self.cell = LMUCell(2, hidden, order, units, theta=40.0)
        self.step = torch.compile(self.cell)
        self.out = nn.Linear(hidden, 4)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], self.hidden)
        m = x.new_zeros(x.shape[0], self.cell.units, self.cell.order)
        outputs = []
        for t in range(x.shape[1]):
            h, m = self.step(x[:, t], (h, m))
            outputs.append(h)
        return self.out(torch.stack(outputs, 1))


def main():
    model = Labeller()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    curve = []
    for it in range(36):
        x, y = batch(BATCH)
        logits = model(x)
        loss = F.cross_entropy(logits.transpose(1, 2), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        curve.append(loss.item())
        if it % 9 == 8:
            print(f"iteration {it + 1}: loss {sum(curve[-9:]) / 9:.4f}")
    with torch.no_grad():
        x, y = batch(BATCH)
        pred = model(x).argmax(-1)
    conf = torch.bincount((y * 4 + pred).flatten(), minlength=16).view(4, 4).float()
    recall = conf.diagonal() / conf.sum(1)
    print("recall dot/dash/gap/letter", [round(r, 3) for r in recall.tolist()])
    print("accuracy", round((pred == y).float().mean().item(), 4))


if __name__ == "__main__":
    main()
