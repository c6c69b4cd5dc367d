"""Near-light photometric stereo of a clay tablet.

A height map, an albedo map and an ambient term are fitted to photographs taken under point lights at known places, from
coarse to fine, with L-BFGS on a robust image error.
"""

import math

import torch
import torch.nn.functional as F

WIDTH = 80.0  # mm across the tablet
LEVELS = [(48, 12), (96, 14), (192, 16)]


def light_ring(n=8):
    k = torch.arange(n)
    ang = 2 * math.pi * k / n
    radius = torch.where(k % 2 == 0, 90.0, 60.0)
    return torch.stack([radius * torch.cos(ang), radius * torch.sin(ang), 55.0 + 25.0 * (k % 3)], -1)


def pixel_grid(size):
    axis = (torch.arange(size) + 0.5) / size * WIDTH - WIDTH / 2
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    return x, y


def normals(z, pitch):
    zp = F.pad(z[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    zx = (zp[1:-1, 2:] - zp[1:-1, :-2]) / (2 * pitch)
    zy = (zp[2:, 1:-1] - zp[:-2, 1:-1]) / (2 * pitch)
    return F.normalize(torch.stack([-zx, -zy, torch.ones_like(z)]), dim=0)


def render(z, albedo, ambient, lights, x, y):
    n = normals(z, WIDTH / z.shape[0])
    images = []
    for l in lights:
        v = torch.stack([l[0] - x, l[1] - y, l[2] - z])
        r = v.norm(dim=0)
        shade = (n * v).sum(0).clamp_min(0) / r
        images.append(albedo * shade * (90.0 / r) ** 2 + ambient * albedo)
    return torch.stack(images)


def total_variation(a):
    return (a[1:] - a[:-1]).abs().mean() + (a[:, 1:] - a[:, :-1]).abs().mean()


def objective(z, rho, ambient, photos, valid, lights, x, y):
    albedo = torch.sigmoid(rho)
    pred = render(z, albedo, F.softplus(ambient), lights, x, y)
    err = torch.sqrt((pred - photos) ** 2 + 1e-4) - 1e-2
    data = (err * valid).sum() / valid.sum()
    bend = (z[2:] - 2 * z[1:-1] + z[:-2]).pow(2).mean() + (z[:, 2:] - 2 * z[:, 1:-1] + z[:, :-2]).pow(
        2
    ).mean()
    return data + 0.004 * total_variation(albedo) + 0.002 * bend + 1e-5 * z.mean().pow(2)


def make_tablet(size, g):
    """Pillow-shaped tablet with wedge impressions and stained clay."""
    x, y = pixel_grid(size)
    z = 6.0 * (1 - (x / 50) ** 2) * (1 - (y / 50) ** 2)
    for _ in range(90):
        cx, cy = (70 * (torch.rand(2, generator=g) - 0.5)).tolist()
        th = (math.pi / 4) * int(torch.randint(0, 3, (1,), generator=g)) - math.pi / 4
        u = (x - cx) * math.cos(th) + (y - cy) * math.sin(th)
        v = -(x - cx) * math.sin(th) + (y - cy) * math.cos(th)
        depth = (
            torch.sigmoid(2 * u)
            * torch.exp(-u.clamp_min(0) / 3.5)
            * (1 - v.abs() / (1.8 + 0.0 * u)).clamp_min(0)
        )
        z = z - 1.1 * depth
    stain = F.interpolate(
        torch.rand(1, 1, 7, 7, generator=g), (size, size), mode="bicubic", align_corners=False
    )[0, 0]
    albedo = (0.35 + 0.3 * stain).clamp(0.1, 0.9)
    return z, albedo, x, y


def resample(a, size, mode="bilinear"):
    return F.interpolate(a[None, None], (size, size), mode=mode, align_corners=False)[0, 0]


def main():
    g = torch.Generator().manual_seed(8)
    lights = light_ring()
    top = LEVELS[-1][0]
    z_true, albedo_true, x, y = make_tablet(top, g)
    photos_full = render(z_true, albedo_true, torch.tensor(0.06), lights, x, y)
    photos_full = (photos_full + 0.008 * torch.randn(photos_full.shape, generator=g)).clamp(0, 1)
    photos_full = torch.round(photos_full * 255) / 255

    fit = torch.compile(objective)
    z = torch.zeros(LEVELS[0][0], LEVELS[0][0])
    rho = torch.zeros_like(z)
    ambient = torch.tensor(-3.0)
    evaluations = 0
    for size, iterations in LEVELS:
        photos = F.interpolate(photos_full[None], (size, size), mode="area")[0]
        valid = ((photos < 0.99) & (photos > 0.01)).float()
        x, y = pixel_grid(size)
        z = resample(z, size, "bicubic").requires_grad_()
        rho = resample(rho, size).requires_grad_()
        ambient = ambient.detach().clone().requires_grad_()
        opt = torch.optim.LBFGS(
            [z, rho, ambient], lr=1.0, max_iter=iterations * 5, history_size=12, line_search_fn="strong_wolfe"
        )

        def closure():
            nonlocal evaluations
            opt.zero_grad()
            loss = fit(z, rho, ambient, photos, valid, lights, x, y)
            loss.backward()
            evaluations += 1
            return loss

        first = opt.step(closure).item()
        z, rho = z.detach(), rho.detach()
        with torch.no_grad():
            last = objective(z, rho, ambient, photos, valid, lights, x, y).item()
        print(f"level {size:4d}: objective {first:.5f} -> {last:.5f}")

    n_fit, n_true = normals(z, WIDTH / top), normals(z_true, WIDTH / top)
    angle = torch.rad2deg(torch.acos((n_fit * n_true).sum(0).clamp(-1, 1)))
    dz = (z - z.mean()) - (z_true - z_true.mean())
    print(
        f"{evaluations} evaluations; normal error mean {angle.mean():.2f} deg, median {angle.median():.2f} deg"
    )
    print(f"height error {dz.pow(2).mean().sqrt():.3f} mm rms; ambient {F.softplus(ambient).item():.4f}")


if __name__ == "__main__":
    main()
