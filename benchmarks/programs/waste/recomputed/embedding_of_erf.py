"""Word vectors squashed by their error function before they are looked up."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


def inputs():
    return torch.randn(4000, 96), torch.randint(0, 4000, (64, 512))


def step(weight, words):
    return F.embedding(words, torch.erf(weight)) * 0.5


def twin(weight, words):
    squashed = torch.erf(weight)
    return F.embedding(words, squashed.as_strided(squashed.shape, squashed.stride())) * 0.5


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
