"""Blockwise DCT, quantisation with tables, zig-zag, rate estimate and reconstruction."""

import math
import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def tables(quality, device):
    base = torch.tensor(
        [
            16,
            11,
            10,
            16,
            24,
            40,
            51,
            61,
            12,
            12,
            14,
            19,
            26,
            58,
            60,
            55,
            14,
            13,
            16,
            24,
            40,
            57,
            69,
            56,
            14,
            17,
            22,
            29,
            51,
            87,
            80,
            62,
            18,
            22,
            37,
            56,
            68,
            109,
            103,
            77,
            24,
            35,
            55,
            64,
            81,
            104,
            113,
            92,
            49,
            64,
            78,
            87,
            103,
            121,
            120,
            101,
            72,
            92,
            95,
            98,
            112,
            100,
            103,
            99,
        ],
        device=device,
    ).float()
    scale = 5000 / quality if quality < 50 else 200 - 2 * quality
    return ((base * scale + 50) / 100).floor().clamp(1, 255).view(8, 8)


def dct_matrix(device):
    k, n = torch.arange(8, device=device)[:, None], torch.arange(8, device=device)[None]
    m = torch.cos(math.pi / 8 * (n + 0.5) * k) * 0.5
    m[0] *= 0.5**0.5
    return m


def zigzag():
    return sorted(range(64), key=lambda i: (i // 8 + i % 8, i // 8 if (i // 8 + i % 8) % 2 else i % 8))


def compress(image, quality=60):
    n, c, h, w = image.shape
    d, q = dct_matrix(image.device), tables(quality, image.device)
    blocks = (image * 255 - 128).view(n, c, h // 8, 8, w // 8, 8).permute(0, 1, 2, 4, 3, 5)
    coef = d @ blocks @ d.t()
    quant = torch.round(coef / q)
    order = torch.tensor(zigzag(), device=image.device)
    scan = quant.flatten(-2)[..., order]
    bits = torch.log2(1 + scan.abs()).sum((-1, -2, -3))
    rebuilt = d.t() @ (quant * q) @ d
    rebuilt = rebuilt.permute(0, 1, 2, 4, 3, 5).reshape(n, c, h, w)
    return ((rebuilt + 128) / 255).clamp(0, 1), bits


def build(device, compiled):
    torch.manual_seed(0)
    image = torch.rand(pick(2, 1), 3, pick(256, 16), pick(256, 16), device=device)
    run = torch.compile(compress, backend=BACKEND) if compiled else compress

    def step():
        return run(image)[0]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
