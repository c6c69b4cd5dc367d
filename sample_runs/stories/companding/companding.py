"""Mu-law companding of audio in 16-bit samples, as a recogniser's first layer does it."""

import math

import torch


def inputs():
    generator = torch.Generator().manual_seed(0)
    return (torch.randint(-32768, 32767, (32, 160000), generator=generator, dtype=torch.int16),)


def compand(samples):
    x = samples / 32768.0
    return torch.sign(x) * torch.log1p(255.0 * x.abs()) / math.log(256.0)


def step(samples):
    return compand(samples.float())


compiled = torch.compile(compand, dynamic=False)


def twin(samples):
    """The samples become floats where they are loaded."""
    return compiled(samples.float())


if __name__ == "__main__":
    (samples,) = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(samples)
