"""Molecular dynamics: embedded-atom energy over a neighbour list, forces from its gradient."""

import torch

dev = "cuda"
torch.manual_seed(0)
side, neighbours, cutoff = 32, 42, 5.5
atoms = side**3
grid = torch.stack(torch.meshgrid(*[torch.arange(side, device=dev)] * 3, indexing="ij"), -1).reshape(-1, 3)
box = side * 2.8
start = grid * 2.8 + 0.05 * torch.randn(atoms, 3, device=dev)
shift = torch.randint(-2, 3, (neighbours, 3), device=dev)
shift[(shift == 0).all(1), 0] = 1
near = (grid[:, None] + shift[None]) % side
pairs = near[..., 0] * side * side + near[..., 1] * side + near[..., 2]


def energy(pos, pairs):
    d = pos[pairs] - pos[:, None]
    d = d - box * torch.round(d / box)
    r = torch.sqrt((d * d).sum(-1) + 1e-8)
    x = ((r - cutoff) / cutoff).clamp(-1, 0)
    fade = x * x / (0.05 + x * x)
    density = (torch.exp(-2.2 * (r / 2.8 - 1)) * fade).sum(1)
    repulse = (0.6 * torch.exp(-9.0 * (r / 2.8 - 1)) * fade).sum(1)
    return (0.5 * repulse - torch.sqrt(density + 1e-6)).sum()


fast = torch.compile(energy)
pos, vel = start.clone(), torch.zeros_like(start)
for _ in range(40):
    pos = pos.detach().requires_grad_()
    e = fast(pos, pairs)
    (g,) = torch.autograd.grad(e, pos)
    vel = vel - 1e-4 * g
    pos = pos + 1e-2 * vel
print(e.item())
