"""Short molecular dynamics with a small equivariant potential built from e3nn layers."""

import time

import torch
import torch.nn as nn
from e3nn import o3
from e3nn.math import soft_one_hot_linspace
from e3nn.nn import FullyConnectedNet, Gate


class Interaction(nn.Module):
    """Tensor-product message passing with radially dependent weights."""

    def __init__(self, irreps_in, irreps_sh, irreps_out, n_radial, num_neighbors):
        super().__init__()
        self.num_neighbors = num_neighbors
        self.linear = o3.Linear(irreps_in, irreps_in)
        mid, instructions = [], []
        for i, (mul, ir_in) in enumerate(o3.Irreps(irreps_in)):
            for j, (_, ir_sh) in enumerate(o3.Irreps(irreps_sh)):
                for ir in ir_in * ir_sh:
                    if ir in o3.Irreps(irreps_out):
                        instructions.append((i, j, len(mid), "uvu", True))
                        mid.append((mul, ir))
        self.tp = o3.TensorProduct(
            irreps_in, irreps_sh, o3.Irreps(mid), instructions, shared_weights=False, internal_weights=False
        )
        self.fc = FullyConnectedNet([n_radial, 32, self.tp.weight_numel], torch.nn.functional.silu)
        self.out = o3.Linear(self.tp.irreps_out, irreps_out)
        self.skip = o3.Linear(irreps_in, irreps_out)

    def forward(self, x, src, dst, sh, radial):
        messages = self.tp(self.linear(x)[src], sh, self.fc(radial))
        agg = torch.zeros(x.shape[0], messages.shape[1], dtype=x.dtype).index_add_(0, dst, messages)
        return self.skip(x) + self.out(agg / self.num_neighbors**0.5)


class Potential(nn.Module):
    def __init__(self, cutoff=1.8, n_radial=8, num_neighbors=18):
        super().__init__()
        self.cutoff, self.n_radial = cutoff, n_radial
        sh = o3.Irreps.spherical_harmonics(2)
        self.irreps_sh = sh
        self.embed = nn.Embedding(2, 16)
        self.gate = Gate("16x0e", [torch.nn.functional.silu], "16x0e", [torch.sigmoid], "8x1o + 8x2e")
        self.conv1 = Interaction("16x0e", sh, self.gate.irreps_in, n_radial, num_neighbors)
        self.conv2 = Interaction(self.gate.irreps_out, sh, "16x0e", n_radial, num_neighbors)
        self.readout = nn.Sequential(nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 1))

    def forward(self, pos, species, src, dst):
        vec = pos[dst] - pos[src]
        dist = vec.norm(dim=-1)
        sh = o3.spherical_harmonics(self.irreps_sh, vec, normalize=True, normalization="component")
        radial = soft_one_hot_linspace(
            dist, 0.0, self.cutoff, self.n_radial, basis="smooth_finite", cutoff=True
        )
        radial = radial * self.n_radial**0.5
        x = self.embed(species)
        x = self.gate(self.conv1(x, src, dst, sh, radial))
        x = self.conv2(x, src, dst, sh, radial)
        repulsion = 0.5 * (0.05 / dist**6 * (1 - dist / self.cutoff) ** 2).sum()
        return 0.05 * self.readout(x).sum() + repulsion


def neighbours(pos, cutoff):
    d = torch.cdist(pos, pos)
    d.fill_diagonal_(float("inf"))
    src, dst = (d < cutoff).nonzero(as_tuple=True)
    return src, dst


def main():
    torch.manual_seed(0)
    grid = torch.stack(torch.meshgrid(*[torch.arange(4.0)] * 3, indexing="ij"), dim=-1).reshape(-1, 3)
    pos = grid + 0.05 * torch.randn(grid.shape)
    species = torch.arange(len(pos)) % 2
    vel = 0.05 * torch.randn(pos.shape)
    model = Potential().requires_grad_(False)
    energy_fn = torch.compile(model)

    def energy_forces(p):
        src, dst = neighbours(p, model.cutoff)
        p = p.detach().requires_grad_()
        energy = energy_fn(p, species, src, dst)
        (grad,) = torch.autograd.grad(energy, p)
        return energy.detach(), -grad, len(src)

    dt = 0.005
    energy, force, _ = energy_forces(pos)
    totals, edges, times = [], [], []
    for step in range(150):
        t0 = time.perf_counter()
        vel = vel + 0.5 * dt * force
        pos = pos + dt * vel
        energy, force, n_edges = energy_forces(pos)
        vel = vel + 0.5 * dt * force
        totals.append((energy + 0.5 * (vel**2).sum()).item())
        edges.append(n_edges)
        if step >= 20:
            times.append(time.perf_counter() - t0)

    drift = abs(totals[-1] - totals[0]) / max(1.0, abs(totals[0]))
    assert drift < 0.05, drift
    times.sort()
    print(f"total energy {totals[0]:.4f} -> {totals[-1]:.4f}, edges {min(edges)}..{max(edges)}")
    print(
        f"median {1e3 * times[len(times) // 2]:.2f} ms, mean {1e3 * sum(times) / len(times):.2f} ms per step"
    )


if __name__ == "__main__":
    main()
