"""Crystal-graph convolutional network that regresses band gaps of synthetic perovskite cells."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)

ELEMENTS, NEIGHBOURS = 40, 12


def random_crystal(gen, traits):
    n = int(torch.randint(10, 31, (1,), generator=gen))
    side = (n * 14.0) ** (1 / 3)
    frac = torch.rand(n, 3, generator=gen)
    kind = torch.randint(0, ELEMENTS, (n,), generator=gen)
    shifts = torch.cartesian_prod(*[torch.tensor([-1.0, 0.0, 1.0])] * 3)
    images = (frac[None] + shifts[:, None]).reshape(-1, 3) * side
    dist = torch.cdist(frac * side, images)
    dist[dist < 1e-4] = 1e9
    d, j = dist.topk(NEIGHBOURS, largest=False)
    j = j % n
    bond = (traits[kind][:, None] - traits[kind[j]]).abs() * torch.exp(-d / 3)
    gap = bond.sum(1).mean() + 0.3 * traits[kind].mean()
    return kind, d, j, gap


def make_set(count, gen):
    traits = torch.randn(ELEMENTS, generator=gen)
    return [random_crystal(gen, traits) for _ in range(count)]


def collate(crystals):
    kinds, dists, nbrs, owner, gaps = [], [], [], [], []
    base = 0
    for c, (kind, d, j, gap) in enumerate(crystals):
        kinds.append(kind)
        dists.append(d)
        nbrs.append(j + base)
        owner.append(torch.full_like(kind, c))
        gaps.append(gap)
        base += len(kind)
    return torch.cat(kinds), torch.cat(dists), torch.cat(nbrs), torch.cat(owner), torch.stack(gaps)


class GaussianBasis(nn.Module):
    def __init__(self, low=0.0, high=8.0, step=0.2):
        super().__init__()
        self.register_buffer("centres", torch.arange(low, high + step, step))
        self.width = step

    def forward(self, d):
        return torch.exp(-(((d.unsqueeze(-1) - self.centres) / self.width) ** 2))


class CrystalConv(nn.Module):
    def __init__(self, atom, edge):
        super().__init__()
        self.full = nn.Linear(2 * atom + edge, 2 * atom)
        self.bn_gate = nn.BatchNorm1d(2 * atom)
        self.bn_out = nn.BatchNorm1d(atom)

    def forward(self, atoms, edges, nbr):
        n, m = nbr.shape
        near = atoms[nbr]
        here = atoms.unsqueeze(1).expand(n, m, atoms.shape[1])
        gated = self.full(torch.cat([here, near, edges], dim=2))
        gated = self.bn_gate(gated.view(n * m, -1)).view(n, m, -1)
        filt, core = gated.chunk(2, dim=2)
        summed = (torch.sigmoid(filt) * F.softplus(core)).sum(dim=1)
        return F.softplus(atoms + self.bn_out(summed))


class CGCNN(nn.Module):
    def __init__(self, atom=48, convs=3, hidden=96):
        super().__init__()
        self.species = nn.Embedding(ELEMENTS, atom)
        self.basis = GaussianBasis()
        edge = len(self.basis.centres)
        self.convs = nn.ModuleList(CrystalConv(atom, edge) for _ in range(convs))
        self.fc = nn.Linear(atom, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, kind, dist, nbr, owner, cells: int):
        atoms = self.species(kind)
        edges = self.basis(dist)
        for conv in self.convs:
            atoms = conv(atoms, edges, nbr)
        pooled = atoms.new_zeros(cells, atoms.shape[1]).index_add_(0, owner, atoms)
        counts = torch.bincount(owner, minlength=cells).unsqueeze(1)
        crystal = self.fc(F.softplus(pooled / counts))
        return self.out(F.softplus(crystal)).squeeze(1)


def main():
    torch.manual_seed(17)
    gen = torch.Generator().manual_seed(17)
    data = make_set(640, gen)
    train, test = data[:544], data[544:]
    gaps = torch.stack([c[3] for c in train])
    mu, sigma = gaps.mean(), gaps.std()
    model = CGCNN()
    net = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    batch = 32
    for epoch in range(6):
        model.train()
        order = torch.randperm(len(train), generator=gen).tolist()
        total = 0.0
        for s in range(0, len(order), batch):
            kind, d, j, owner, gap = collate([train[i] for i in order[s : s + batch]])
            pred = net(kind, d, j, owner, batch)
            loss = F.mse_loss(pred, (gap - mu) / sigma)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        model.eval()
        errors = []
        with torch.no_grad():
            for s in range(0, len(test), batch):
                kind, d, j, owner, gap = collate(test[s : s + batch])
                errors.append((model(kind, d, j, owner, batch) * sigma + mu - gap).abs())
        print(
            f"epoch {epoch}: train {total * batch / len(train):.4f}, test MAE {torch.cat(errors).mean():.4f} eV"
        )


if __name__ == "__main__":
    main()
