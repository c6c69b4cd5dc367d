"""Energy of a lattice of spins: the angle of each against its eight neighbours."""

import torch

torch.manual_seed(0)
SHIFTS = [(0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (-1, -1), (1, -1), (-1, 1)]


def inputs():
    return torch.randn(768, 768), torch.randn(768, 768)


def step(x, y):
    angle = torch.atan2(y, x)
    energy = 0
    for shift in SHIFTS:
        turn = angle - torch.roll(angle, shift, (0, 1))
        energy = energy + turn * turn
    return energy


def twin(x, y):
    angle = torch.atan2(y, x)
    angle = angle.as_strided(angle.shape, angle.stride())
    energy = 0
    for shift in SHIFTS:
        turn = angle - torch.roll(angle, shift, (0, 1))
        energy = energy + turn * turn
    return energy


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
