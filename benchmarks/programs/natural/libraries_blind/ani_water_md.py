"""Langevin dynamics of a water droplet with a TorchANI potential."""

import math
import time

import torch
from torchani.arch import simple_ani

NUM_WATERS = 64
SPACING = 3.1  # Angstrom
TIMESTEP = 0.25  # fs
TEMPERATURE = 300.0  # K
FRICTION = 0.05  # 1/fs
WALL_RADIUS = 9.0  # Angstrom
WALL_K = 0.01  # Hartree / Angstrom^2
STEPS = 500

KB_HARTREE = 3.166811563e-6
FS_TO_AU = 41.341373
ANGSTROM_TO_BOHR = 1.889726
AMU_TO_AU = 1822.888486
MASSES = {8: 15.999, 1: 1.008}


def water_droplet(gen: torch.Generator):
    """Waters on the sites of a cubic lattice closest to the centre, randomly rotated."""
    side = 5
    axis = (torch.arange(side) - (side - 1) / 2) * SPACING
    lattice = torch.cartesian_prod(axis, axis, axis)
    centres = lattice[lattice.norm(dim=1).argsort()[:NUM_WATERS]]

    half = math.radians(104.5 / 2)
    template = torch.tensor(
        [
            [0.0, 0.0, 0.0],
            [0.96 * math.sin(half), 0.0, 0.96 * math.cos(half)],
            [-0.96 * math.sin(half), 0.0, 0.96 * math.cos(half)],
        ]
    )
    rotations, _ = torch.linalg.qr(torch.randn(NUM_WATERS, 3, 3, generator=gen))
    coords = (template @ rotations.transpose(1, 2) + centres.unsqueeze(1)).reshape(1, -1, 3)
    species = torch.tensor([8, 1, 1]).repeat(NUM_WATERS).unsqueeze(0)
    return species, coords


def wall_force(x):
    """Half-harmonic confinement that keeps evaporating molecules in the droplet."""
    r = x.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    return -2 * WALL_K * (r - WALL_RADIUS).clamp(min=0) * x / r


class Langevin:
    """BAOAB splitting in atomic units, positions kept in Angstrom."""

    def __init__(self, species, force_fn, gen):
        self.gen = gen
        self.force_fn = force_fn
        self.species = species
        mass = torch.tensor([MASSES[int(z)] for z in species[0]]) * AMU_TO_AU
        self.mass = mass.view(1, -1, 1)
        self.dt = TIMESTEP * FS_TO_AU
        self.c1 = math.exp(-FRICTION * TIMESTEP)
        self.sigma = (KB_HARTREE * TEMPERATURE / self.mass).sqrt()

    def thermal_velocities(self):
        shape = (1, self.mass.shape[1], 3)
        v = self.sigma * torch.randn(shape, generator=self.gen)
        return v - (self.mass * v).sum(1, keepdim=True) / self.mass.sum()

    def step(self, x, v, f):
        v = v + 0.5 * self.dt * f / self.mass
        x = x + 0.5 * self.dt * v / ANGSTROM_TO_BOHR
        noise = torch.randn(v.shape, generator=self.gen)
        v = self.c1 * v + math.sqrt(1 - self.c1**2) * self.sigma * noise
        x = x + 0.5 * self.dt * v / ANGSTROM_TO_BOHR
        energy, f = self.force_fn(self.species, x)
        v = v + 0.5 * self.dt * f / self.mass
        return x, v, f, energy


def main():
    torch.manual_seed(4)
    gen = torch.Generator().manual_seed(8)
    species, coords = water_droplet(gen)

    potential = simple_ani(
        ("H", "C", "N", "O"), lot="wb97x-631gd", self_energies="zero", repulsion=True, strategy="pyaev"
    )
    potential.requires_grad_(False)
    for name, weight in potential.named_parameters():
        if "final_layer" in name:  # untrained network, keep it a small correction to the repulsion
            weight.mul_(0.05)
    potential = torch.compile(potential)

    def forces(species, x):
        x = x.detach().requires_grad_(True)
        energy = potential((species, x)).energies
        (grad,) = torch.autograd.grad(energy.sum(), x)
        return energy.detach(), (wall_force(x.detach()) - grad) / ANGSTROM_TO_BOHR

    integrator = Langevin(species, forces, gen)
    velocities = integrator.thermal_velocities()
    energy, force = forces(species, coords)
    print(f"{coords.shape[1]} atoms, initial potential energy {energy.item():.4f} Ha")

    started = time.perf_counter()
    for step in range(1, STEPS + 1):
        coords, velocities, force, energy = integrator.step(coords, velocities, force)
        if step % 100 == 0:
            kinetic = 0.5 * (integrator.mass * velocities.square()).sum()
            temperature = 2 * kinetic / (3 * coords.shape[1] * KB_HARTREE)
            took = (time.perf_counter() - started) / 100
            print(
                f"{step * TIMESTEP:7.2f} fs  E_pot {energy.item():10.4f} Ha  T {temperature:7.1f} K  {1e3 * took:.1f} ms/step"
            )
            started = time.perf_counter()

    centred = coords[0] - coords[0].mean(0)
    print(f"radius of gyration {centred.square().sum(1).mean().sqrt():.3f} A")


if __name__ == "__main__":
    main()
