"""Renders a scene of signed distances by sphere tracing, with soft shadows and normals by differences."""

import torch


def scene(p):
    sphere = (p - torch.tensor([0.0, 0.3, 3.0])).norm(dim=-1) - 1.0
    q = p - torch.tensor([1.6, 0.0, 3.5])
    box = torch.maximum(q.abs() - 0.6, torch.zeros(3)).norm(dim=-1) - 0.1
    floor = p[..., 1] + 1.0
    h = (0.5 + 0.5 * (box - sphere) / 0.4).clamp(0, 1)
    blend = torch.lerp(box, sphere, h) - 0.4 * h * (1 - h)
    return torch.minimum(blend, floor)


def render(origin, rays, light):
    t = torch.zeros(rays.shape[:-1])
    for _ in range(32):
        t = t + scene(origin + rays * t.unsqueeze(-1)).clamp(min=0.001)
    p = origin + rays * t.unsqueeze(-1)
    eps = torch.eye(3) * 1e-3
    n = torch.stack([scene(p + e) - scene(p - e) for e in eps], -1)
    n = n / (n.norm(dim=-1, keepdim=True) + 1e-9)
    shade, s = torch.ones_like(t), torch.full_like(t, 0.05)
    for _ in range(12):
        d = scene(p + light * s.unsqueeze(-1))
        shade = torch.minimum(shade, 8 * d / s)
        s = s + d.clamp(0.02, 0.5)
    return ((n * light).sum(-1).clamp(min=0) * shade.clamp(0, 1) * (t < 20)).pow(1 / 2.2)


v, u = torch.meshgrid(torch.linspace(1, -1, 160), torch.linspace(-1.5, 1.5, 240), indexing="ij")
rays = torch.nn.functional.normalize(torch.stack([u, v, torch.full_like(u, 1.5)], -1), dim=-1)
light = torch.nn.functional.normalize(torch.tensor([0.5, 1.0, -0.6]), dim=0)
draw = torch.compile(render)
for k in range(15):
    image = draw(torch.tensor([0.02 * k, 0.2, 0.0]), rays, light)
print(image.mean().item())
