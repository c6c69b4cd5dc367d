"""Fits an equivariant e3nn message-passing network to predict pairwise-potential forces of random atom clusters directly as vectors."""

import e3nn
import torch
import torch.nn as nn
from e3nn import o3

defaults = e3nn.get_optimization_defaults()
if "jit_mode" in defaults:
    e3nn.set_optimization_defaults(jit_mode="eager")
else:
    e3nn.set_optimization_defaults(jit_script_fx=False)


class Layer(nn.Module):
    def __init__(self, irreps_in, irreps_sh, irreps_out, n_basis=16):
        super().__init__()
        self.tp = o3.FullyConnectedTensorProduct(irreps_in, irreps_sh, irreps_out, shared_weights=False)
        self.radial = nn.Sequential(nn.Linear(n_basis, 64), nn.SiLU(), nn.Linear(64, self.tp.weight_numel))
        self.self_int = o3.Linear(irreps_in, irreps_out)

    def forward(self, x, src, dst, sh, basis):
        msg = self.tp(x[src], sh, self.radial(basis))
        agg = torch.zeros(x.shape[0], msg.shape[1], device=x.device, dtype=x.dtype).index_add_(0, dst, msg)
        return self.self_int(x) + agg / 4.0


class ForceNet(nn.Module):
    def __init__(self, species=4):
        super().__init__()
        self.irreps_sh = o3.Irreps.spherical_harmonics(2)
        hidden = o3.Irreps("16x0e + 8x1o + 4x2e")
        self.embed = nn.Embedding(species, 16)
        self.sh = o3.SphericalHarmonics(self.irreps_sh, normalize=True, normalization="component")
        self.l1 = Layer(o3.Irreps("16x0e"), self.irreps_sh, hidden)
        self.l2 = Layer(hidden, self.irreps_sh, o3.Irreps("1x1o"))
        self.register_buffer("centers", torch.linspace(0.5, 4.0, 16))

    def forward(self, z, pos, src, dst):
        vec = pos[src] - pos[dst]
        r = vec.norm(dim=1, keepdim=True)
        cutoff = 0.5 * (torch.cos(torch.pi * (r / 4.0).clamp(max=1.0)) + 1)
        basis = torch.exp(-((r - self.centers) ** 2) / 0.1) * cutoff
        sh = self.sh(vec)
        x = self.l1(self.embed(z), src, dst, sh, basis)
        return self.l2(x, src, dst, sh, basis)


def clusters(n_mol, n_atoms, gen):
    grid = (
        torch.stack(torch.meshgrid(*[torch.arange(3.0)] * 3, indexing="ij"), -1).reshape(-1, 3)[:n_atoms]
        * 1.6
    )
    pos = grid + 0.2 * torch.randn(n_mol, n_atoms, 3, generator=gen)
    z = torch.randint(0, 4, (n_mol * n_atoms,), generator=gen)
    d = torch.cdist(pos, pos)
    mol, i, j = torch.nonzero((d < 4.0) & (d > 0), as_tuple=True)
    return z.cuda(), pos.reshape(-1, 3).cuda(), (mol * n_atoms + i).cuda(), (mol * n_atoms + j).cuda()


def morse_forces(pos, src, dst):
    p = pos.clone().requires_grad_(True)
    r = (p[src] - p[dst]).norm(dim=1)
    energy = 0.5 * ((1 - torch.exp(-1.2 * (r - 1.5))) ** 2).sum()
    return -torch.autograd.grad(energy, p)[0]


def main():
    torch.manual_seed(13)
    gen = torch.Generator().manual_seed(13)
    model = ForceNet().cuda()
    net = torch.compile(model, dynamic=True)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for step in range(16):
        z, pos, src, dst = clusters(16, 20, gen)
        target = morse_forces(pos, src, dst)
        pred = net(z, pos, src, dst)
        loss = (pred - target).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    print("force mse %.5f -> %.5f" % (losses[0], losses[-1]))


if __name__ == "__main__":
    main()
