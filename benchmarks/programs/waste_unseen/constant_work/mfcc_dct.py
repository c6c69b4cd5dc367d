"""Cepstral coefficients with the cosine matrix made in the forward."""

import math

import torch

torch.manual_seed(0)


def dct(coefficients, bands):
    n = torch.arange(float(bands))
    k = torch.arange(float(coefficients))[:, None]
    matrix = torch.cos(math.pi / bands * (n + 0.5) * k)
    matrix[0] *= 1.0 / math.sqrt(2.0)
    return matrix.t() * math.sqrt(2.0 / bands)


def inputs():
    return (torch.rand(16, 1024),)


def step(mel):
    return torch.log(mel + 1e-6) @ dct(512, 1024)


TABLE = dct(512, 1024).contiguous()


def twin(mel):
    return torch.log(mel + 1e-6) @ TABLE


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
