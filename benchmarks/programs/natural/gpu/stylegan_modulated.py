"""Modulated convolution with demodulation, noise, FIR upsampling to RGB skips."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def fir_upsample(x, kernel):
    n, c, h, w = x.shape
    y = x.new_zeros(n, c, h, 2, w, 2)
    y[:, :, :, 0, :, 0] = x
    y = F.pad(y.view(n, c, 2 * h, 2 * w), (2, 1, 2, 1))
    return F.conv2d(y, kernel.expand(c, 1, 4, 4), groups=c)


class ModConv(nn.Module):
    def __init__(self, inp, out, kernel, style, demodulate=True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out, inp, kernel, kernel))
        self.affine = nn.Linear(style, inp)
        self.demodulate, self.pad = demodulate, kernel // 2
        self.gain = (inp * kernel * kernel) ** -0.5

    def forward(self, x, style):
        n, c, h, w = x.shape
        weight = self.weight[None] * (1 + self.affine(style))[:, None, :, None, None] * self.gain
        if self.demodulate:
            weight = weight * torch.rsqrt(weight.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        y = F.conv2d(x.reshape(1, n * c, h, w), weight.flatten(0, 1), padding=self.pad, groups=n)
        return y.view(n, -1, h, w)


class Synthesis(nn.Module):
    def __init__(self, ch=128, style=256):
        super().__init__()
        self.mapping = nn.Sequential(
            nn.Linear(style, style), nn.LeakyReLU(0.2), nn.Linear(style, style), nn.LeakyReLU(0.2)
        )
        self.const = nn.Parameter(torch.randn(1, ch, 16, 16))
        self.convs = nn.ModuleList([ModConv(ch, ch, 3, style) for _ in range(3)])
        self.rgbs = nn.ModuleList([ModConv(ch, 3, 1, style, False) for _ in range(3)])
        self.noise = nn.Parameter(torch.full((3,), 0.1))
        k = torch.tensor([1.0, 3.0, 3.0, 1.0])
        self.register_buffer("fir", (k[:, None] * k[None] / 16)[None, None])

    def forward(self, z):
        w = self.mapping(F.normalize(z, dim=1))
        x, image = self.const.expand(z.shape[0], -1, -1, -1), None
        for i, (conv, rgb) in enumerate(zip(self.convs, self.rgbs)):
            if i:
                x, image = fir_upsample(x, self.fir), fir_upsample(image, self.fir)
            x = conv(x, w)
            x = (
                F.leaky_relu(
                    x + self.noise[i] * torch.randn(x.shape[0], 1, *x.shape[2:], device=x.device), 0.2
                )
                * 2**0.5
            )
            y = rgb(x, w)
            image = y if image is None else image + y
        return image


def build(device, compiled):
    torch.manual_seed(0)
    model = Synthesis(pick(128, 8)).to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    z = torch.randn(pick(32, 2), 256, device=device)

    @torch.no_grad()
    def step():
        return model(z)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
