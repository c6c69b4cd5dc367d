"""A decoder's step: keys and values of all layers lie in one buffer, a row of each is written."""

import torch

torch.manual_seed(0)
LAYERS = 4


def inputs():
    return torch.zeros(LAYERS, 2, 8, 2048, 64), torch.randn(8, 1, 64)


def attend(keys, values, x):
    weights = torch.softmax((keys[:, :128] * x).sum(-1), -1)
    return x + (weights[..., None] * values[:, :128]).sum(1, keepdim=True)


def step(cache, x):
    for layer in range(LAYERS):
        kv = cache[layer]
        kv[0, :, 100:101] = torch.tanh(x)
        kv[1, :, 100:101] = torch.sigmoid(x)
        x = attend(kv[0], kv[1], x)
    return x


def twin(cache, x):
    """The parts written through strided views of the whole, which torch always leaves in place."""
    for layer in range(LAYERS):
        for number, value in enumerate((torch.tanh(x), torch.sigmoid(x))):
            layers, kinds, heads, rows, one = cache.stride()
            offset = layer * layers + number * kinds + 100 * rows
            cache.as_strided((8, 1, 64), (heads, rows, one), offset).copy_(value)
        x = attend(cache[layer, 0], cache[layer, 1], x)
    return x


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
