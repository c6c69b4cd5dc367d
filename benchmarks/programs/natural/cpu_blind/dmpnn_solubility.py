"""Directed message passing network (Chemprop D-MPNN) for aqueous solubility.

Molecules are synthetic: random trees of heavy atoms with a few ring closures,
target is a noisy additive group contribution.
"""

import random
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

ELEMENTS = ["C", "N", "O", "S", "F", "Cl", "Br", "P"]
FREQ = [70, 10, 11, 2, 3, 2, 1, 1]
VALENCE = [4, 3, 2, 2, 1, 1, 1, 4]
CONTRIB = [-0.31, 0.42, 0.55, -0.2, -0.15, -0.4, -0.5, 0.3]
ATOM_FDIM, BOND_FDIM = 40, 12
HIDDEN, DEPTH, BATCH, EPOCHS = 300, 4, 50, 6


@dataclass
class Mol:
    f_atoms: torch.Tensor
    f_bonds: torch.Tensor  # (2 * bonds, BOND_FDIM), a pair of directions is adjacent
    src: torch.Tensor
    dst: torch.Tensor
    y: float


def random_mol(rng):
    n = rng.randint(9, 38)
    kinds, degree, bonds = [0], [0], []
    for i in range(1, n):
        free = [a for a in range(i) if degree[a] < VALENCE[kinds[a]]]
        if not free:
            break
        j = rng.choice(free[-6:])
        kinds.append(rng.choices(range(8), FREQ)[0])
        degree.append(1)
        degree[j] += 1
        bonds.append((j, i))
    n = len(kinds)
    rings = 0
    for _ in range(rng.randint(0, 4)):
        a, b = rng.randrange(n), rng.randrange(n)
        ok = a != b and (a, b) not in bonds and (b, a) not in bonds
        if ok and degree[a] < VALENCE[kinds[a]] and degree[b] < VALENCE[kinds[b]]:
            bonds.append((a, b))
            degree[a] += 1
            degree[b] += 1
            rings += 1
    f_atoms = torch.zeros(n, ATOM_FDIM)
    for i, (k, d) in enumerate(zip(kinds, degree)):
        f_atoms[i, k] = 1
        f_atoms[i, 8 + d] = 1
        f_atoms[i, 14 + max(0, VALENCE[k] - d)] = 1
    f_bonds = torch.zeros(2 * len(bonds), BOND_FDIM)
    src, dst = [], []
    for e, (a, b) in enumerate(bonds):
        order = rng.choices((0, 1, 2, 3), (70, 15, 2, 13))[0]
        f_bonds[2 * e : 2 * e + 2, order] = 1
        f_bonds[2 * e : 2 * e + 2, 5] = float(e >= n - 1)
        src += [a, b]
        dst += [b, a]
    y = sum(CONTRIB[k] for k in kinds) - 0.35 * rings + rng.gauss(0, 0.2)
    return Mol(f_atoms, f_bonds, torch.tensor(src), torch.tensor(dst), y)


def collate(mols):
    src, dst, owner, offset = [], [], [], 0
    for m, mol in enumerate(mols):
        n = len(mol.f_atoms)
        src.append(mol.src + offset)
        dst.append(mol.dst + offset)
        owner.append(torch.full((n,), m))
        offset += n
    f_atoms = torch.cat([m.f_atoms for m in mols])
    src = torch.cat(src)
    f_bonds = torch.cat([f_atoms[src], torch.cat([m.f_bonds for m in mols])], dim=1)
    return f_atoms, f_bonds, src, torch.cat(dst), torch.cat(owner), torch.tensor([m.y for m in mols])


class DMPNN(nn.Module):
    def __init__(self, dropout=0.05):
        super().__init__()
        self.W_i = nn.Linear(ATOM_FDIM + BOND_FDIM, HIDDEN, bias=False)
        self.W_h = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.W_o = nn.Linear(ATOM_FDIM + HIDDEN, HIDDEN)
        self.dropout = nn.Dropout(dropout)
        self.ffn = nn.Sequential(
            nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Dropout(dropout), nn.Linear(HIDDEN, 1)
        )

    def forward(self, f_atoms, f_bonds, src, dst, owner, n_mols: int):
        inp = self.W_i(f_bonds)
        h = F.relu(inp)
        rev = torch.arange(h.shape[0], device=h.device) ^ 1
        for _ in range(DEPTH - 1):
            at_atom = h.new_zeros(f_atoms.shape[0], HIDDEN).index_add_(0, dst, h)
            message = at_atom[src] - h[rev]
            h = self.dropout(F.relu(inp + self.W_h(message)))
        at_atom = h.new_zeros(f_atoms.shape[0], HIDDEN).index_add_(0, dst, h)
        atoms = self.dropout(F.relu(self.W_o(torch.cat([f_atoms, at_atom], dim=1))))
        total = atoms.new_zeros(n_mols, HIDDEN).index_add_(0, owner, atoms)
        count = torch.bincount(owner, minlength=n_mols).unsqueeze(1)
        return self.ffn(total / count).squeeze(1)


def noam_lr(step, warmup, total, init=1e-4, peak=1e-3, final=1e-4):
    if step < warmup:
        return init + (peak - init) * step / warmup
    return peak * (final / peak) ** ((step - warmup) / (total - warmup))


def main():
    rng = random.Random(3)
    torch.manual_seed(3)
    mols = [random_mol(rng) for _ in range(2000)]
    mean = sum(m.y for m in mols) / len(mols)
    std = (sum((m.y - mean) ** 2 for m in mols) / len(mols)) ** 0.5
    train, valid = mols[:1800], mols[1800:]
    model = DMPNN()
    forward = torch.compile(model, dynamic=True)
    opt = torch.optim.Adam(model.parameters())
    total_steps, step = EPOCHS * (len(train) // BATCH), 0
    for epoch in range(EPOCHS):
        model.train()
        rng.shuffle(train)
        t0, sse = time.perf_counter(), 0.0
        for at in range(0, len(train), BATCH):
            *graph, y = collate(train[at : at + BATCH])
            y = (y - mean) / std
            for group in opt.param_groups:
                group["lr"] = noam_lr(step, 36, total_steps)
            loss = F.mse_loss(forward(*graph, BATCH), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sse += loss.item() * len(y)
            step += 1
        took = time.perf_counter() - t0
        model.eval()
        with torch.no_grad():
            err = []
            for at in range(0, len(valid), BATCH):
                *graph, y = collate(valid[at : at + BATCH])
                err.append(model(*graph, BATCH) * std + mean - y)
            rmse = torch.cat(err).pow(2).mean().sqrt().item()
        print(
            f"epoch {epoch}  train mse {sse / len(train):.4f}  valid rmse {rmse:.3f}  "
            f"{1e3 * took / (len(train) / BATCH):.0f} ms/batch"
        )


if __name__ == "__main__":
    main()
