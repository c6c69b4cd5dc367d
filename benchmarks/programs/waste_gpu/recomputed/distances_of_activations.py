"""How far apart two sets of activated embeddings are, each to each."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


def inputs():
    return torch.randn(2048, 64, device="cuda"), torch.randn(2048, 64, device="cuda")


def step(queries, keys):
    return (F.gelu(queries)[:, None, :] - F.gelu(keys)[None, :, :]).abs().sum(-1)


def twin(queries, keys):
    queries, keys = F.gelu(queries), F.gelu(keys)
    queries = queries.as_strided(queries.shape, queries.stride())
    keys = keys.as_strided(keys.shape, keys.stride())
    return (queries[:, None, :] - keys[None, :, :]).abs().sum(-1)


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(30):
            result = run(*args)
    torch.cuda.synchronize()
