"""Fits an image with 2D Gaussians, each drawn over the whole picture and blended by weight."""

import torch


def draw(mean, log_scale, angle, colour, grid):
    c, s = angle.cos(), angle.sin()
    d = grid[None] - mean[:, None, None]
    u = (c[:, None, None] * d[..., 0] + s[:, None, None] * d[..., 1]) / log_scale[:, :1, None].exp()
    v = (-s[:, None, None] * d[..., 0] + c[:, None, None] * d[..., 1]) / log_scale[:, 1:, None].exp()
    weight = torch.exp(-0.5 * (u * u + v * v))
    picture = torch.einsum("nhw,nc->hwc", weight, colour.sigmoid())
    return picture / (weight.sum(0)[..., None] + 1e-3)


torch.manual_seed(0)
n, size = 64, 64
axis = torch.linspace(-1, 1, size)
grid = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), -1)
target = torch.stack(
    [grid[..., 0].abs(), (grid * 3).sin().prod(-1) * 0.5 + 0.5, grid[..., 1] * 0.5 + 0.5], -1
)
params = [torch.randn(n, 2) * 0.5, torch.full((n, 2), -1.5), torch.rand(n) * 3, torch.randn(n, 3)]
params = [p.requires_grad_() for p in params]
render = torch.compile(draw)
opt = torch.optim.Adam(params, lr=0.02)
for _ in range(25):
    opt.zero_grad()
    loss = (render(*params, grid) - target).abs().mean()
    loss.backward()
    opt.step()
print(loss.item())
