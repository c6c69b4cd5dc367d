"""A decoder's step that writes at positions given as a tensor, into a cache of all layers."""

import torch

torch.manual_seed(0)
LAYERS = 6


def inputs():
    return torch.zeros(LAYERS, 2, 4, 4096, 32), torch.randn(4, 32), torch.tensor([40])


def attend(keys, values, x):
    scores = (keys[:, :256] * x[:, None]).sum(-1) / 32**0.5
    return x + (torch.softmax(scores, -1)[..., None] * values[:, :256]).sum(1)


def step(cache, x, position):
    for layer in range(LAYERS):
        cache[layer, 0, :, position] = (x * 1.5)[:, None]
        cache[layer, 1, :, position] = torch.relu(x)[:, None]
        x = attend(cache[layer, 0], cache[layer, 1], x)
    return x


PARTS = [torch.zeros(4, 4096, 32) for _ in range(2 * LAYERS)]


def twin(cache, x, position):
    for layer in range(LAYERS):
        keys, values = PARTS[2 * layer : 2 * layer + 2]
        keys[:, position] = (x * 1.5)[:, None]
        values[:, position] = torch.relu(x)[:, None]
        x = attend(keys, values, x)
    return x


if __name__ == "__main__":
    import sys

    args = inputs()
    run = torch.compile(twin if "after" in sys.argv else step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
