"""Viterbi decoding of tag sequences with back-pointers."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def viterbi(emissions, transitions, start, end):
    score = start + emissions[:, 0]
    back = []
    for t in range(1, emissions.shape[1]):
        total = score[:, :, None] + transitions[None]
        best, index = total.max(1)
        score = best + emissions[:, t]
        back.append(index)
    score, tag = (score + end).max(1)
    path = [tag]
    for index in reversed(back):
        tag = index.gather(1, tag[:, None]).squeeze(1)
        path.append(tag)
    return score, torch.stack(path[::-1], 1)


def build(device, compiled):
    torch.manual_seed(0)
    n, length, tags = pick(64, 2), pick(20, 5), pick(40, 5)
    emissions = torch.randn(n, length, tags, device=device)
    transitions, start, end = (
        torch.randn(tags, tags, device=device),
        torch.randn(tags, device=device),
        torch.randn(tags, device=device),
    )
    run = torch.compile(viterbi, backend=BACKEND) if compiled else viterbi

    def step():
        return run(emissions, transitions, start, end)[0]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
