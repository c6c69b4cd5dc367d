"""FSRCNN-like upscaler with a transposed convolution and bicubic chroma."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class FSRCNN(nn.Module):
    def __init__(self, d=32, s=8, m=3, scale=2):
        super().__init__()
        self.scale = scale
        self.extract = nn.Sequential(
            nn.Conv2d(1, d, 5, padding=2), nn.PReLU(d), nn.Conv2d(d, s, 1), nn.PReLU(s)
        )
        self.map = nn.Sequential(
            *[nn.Sequential(nn.Conv2d(s, s, 3, padding=1), nn.PReLU(s)) for _ in range(m)]
        )
        self.expand = nn.Sequential(nn.Conv2d(s, d, 1), nn.PReLU(d))
        self.up = nn.ConvTranspose2d(d, 1, 9, scale, 4, output_padding=scale - 1)

    def forward(self, rgb):
        r, g, b = rgb.unbind(1)
        y = 0.299 * r + 0.587 * g + 0.114 * b
        cb, cr = 0.564 * (b - y), 0.713 * (r - y)
        y2 = self.up(self.expand(self.map(self.extract(y[:, None]))))
        c = F.interpolate(
            torch.stack([cb, cr], 1), scale_factor=self.scale, mode="bicubic", align_corners=False
        )
        cb, cr = c[:, :1], c[:, 1:]
        return torch.cat([y2 + 1.403 * cr, y2 - 0.344 * cb - 0.714 * cr, y2 + 1.773 * cb], 1).clamp(0, 1)


def build(device, compiled):
    torch.manual_seed(0)
    model = FSRCNN().to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    x = torch.rand(1, 3, pick(96, 12), pick(128, 16), device=device)

    @torch.inference_mode()
    def step():
        return model(x)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
