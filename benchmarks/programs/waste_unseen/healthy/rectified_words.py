"""Word vectors rectified before they are looked up: cheap to do again for every word."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


def inputs():
    return torch.randn(8000, 128), torch.randint(0, 8000, (64, 512))


def step(weight, words):
    return F.embedding(words, torch.relu(weight) * 0.5)


def twin(weight, words):
    table = torch.relu(weight) * 0.5
    return F.embedding(words, table.as_strided(table.shape, table.stride()))


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
