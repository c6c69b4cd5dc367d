"""Conway's life by padded neighbour sums, several generations."""

import os

import torch
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def life(board, generations=8):
    kernel = torch.ones(1, 1, 3, 3, device=board.device)
    kernel[0, 0, 1, 1] = 0
    for _ in range(generations):
        padded = F.pad(board, (1, 1, 1, 1), mode="circular")
        n = F.conv2d(padded, kernel)
        board = ((n == 3) | ((n == 2) & (board > 0))).float()
    return board


def build(device, compiled):
    torch.manual_seed(0)
    side = pick(512, 24)
    state = [(torch.rand(1, 1, side, side, device=device) < 0.3).float()]
    run = torch.compile(life, backend=BACKEND) if compiled else life

    @torch.no_grad()
    def step():
        state[0] = run(state[0])
        return state[0]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
