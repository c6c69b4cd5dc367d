"""Shingle hashing, MinHash signatures and pairwise similarity of documents."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def minhash(tokens, lengths, a, b, prime=2147483647):
    shingles = (tokens[:, :-2] * 961 + tokens[:, 1:-1] * 31 + tokens[:, 2:]) % prime
    valid = torch.arange(shingles.shape[1], device=tokens.device)[None] < (lengths[:, None] - 2)
    hashed = (shingles[..., None] * a + b) % prime
    hashed = hashed.masked_fill(~valid[..., None], prime)
    sig = hashed.amin(1)
    same = (sig[:, None] == sig[None]).float().mean(-1)
    same.fill_diagonal_(0)
    best, index = same.max(1)
    return sig, best, index


def build(device, compiled):
    torch.manual_seed(0)
    docs, length, hashes = pick(128, 6), pick(200, 12), 64
    tokens = torch.randint(30000, (docs, length), device=device)
    lengths = torch.randint(length // 2, length + 1, (docs,), device=device)
    a, b = torch.randint(1, 2**31 - 1, (2, hashes), device=device)
    run = torch.compile(minhash, backend=BACKEND) if compiled else minhash

    def step():
        return run(tokens, lengths, a, b)[1]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
