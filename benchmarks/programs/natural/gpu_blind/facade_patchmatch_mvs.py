"""PatchMatch multi-view stereo for a building facade.

For each reference photograph, every pixel keeps a slanted plane (depth and normal).  Hypotheses come from neighbours
(red-black style propagation with several offsets) and from random perturbation; the score is a bilaterally weighted NCC
of a dilated patch against the neighbouring photographs, of which the best ones count.  The photographs are rendered from
an analytic facade (bays and window recesses) so the result can be compared with the truth.
"""

import math

import torch
import torch.nn.functional as F

torch.manual_seed(17)
device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cuda":
    H, W, VIEWS, PATCH, ITERS, REFS = 900, 1200, 6, 7, 10, 3
else:
    H, W, VIEWS, PATCH, ITERS, REFS = 30, 40, 3, 3, 2, 1
FOCAL = 0.9 * W
K = torch.tensor([[FOCAL, 0, (W - 1) / 2], [0, FOCAL, (H - 1) / 2], [0, 0, 1]], device=device)
K_INV = torch.linalg.inv(K)
STEP = 2
Z_NEAR, Z_FAR = 4.0, 7.0


def surface(x, y):
    bays = 0.25 * torch.sin(1.3 * x)
    windows = 0.08 * torch.tanh(6 * torch.sin(3.5 * x + 0.4) * torch.sin(3.1 * y))
    return 5.4 + bays + windows + 0.1 * y


def texture(x, y):
    brick = torch.sin(55 * x + 9 * torch.floor(12 * y)) * torch.sin(38 * y)
    dirt = torch.sin(7.1 * x + 3.3 * y) + torch.sin(21 * x - 17 * y) + torch.sin(90 * x * y + 13 * x)
    return 0.5 + 0.18 * brick + 0.09 * dirt


def camera(i, n):
    a = 0.12 * (i - (n - 1) / 2)
    rot = torch.tensor(
        [[math.cos(a), 0, math.sin(a)], [0, 1, 0], [-math.sin(a), 0, math.cos(a)]], device=device
    )
    centre = torch.tensor(
        [5.2 * math.sin(a), 0.15 * math.sin(3.0 * i), 0.4 * (1 - math.cos(a))], device=device
    )
    return rot, -rot @ centre


def pixel_rays():
    v, u = torch.meshgrid(
        torch.arange(H, device=device, dtype=torch.float32),
        torch.arange(W, device=device, dtype=torch.float32),
        indexing="ij",
    )
    return torch.stack([u, v, torch.ones_like(u)], -1) @ K_INV.T


def photograph(rot, trans):
    rays = pixel_rays() @ rot
    centre = -rot.T @ trans
    t = torch.full((H, W), 5.0, device=device)
    for _ in range(60):
        p = centre + t[..., None] * rays
        t = t + 0.6 * (surface(p[..., 0], p[..., 1]) - p[..., 2])
    image = texture(p[..., 0], p[..., 1])
    return image + 0.01 * torch.randn_like(image), t


def patch_offsets():
    r = (torch.arange(PATCH, device=device) - PATCH // 2) * STEP
    dv, du = torch.meshgrid(r, r, indexing="ij")
    return torch.stack([du, dv], -1).reshape(-1, 2).float()


def reference_patches(image, offsets):
    """Grey values of the patch at every pixel, and the bilateral weights"""
    radius = PATCH // 2 * STEP
    padded = F.pad(image[None, None], [radius] * 4, mode="reflect")
    patches = F.unfold(padded, PATCH, dilation=STEP)[0].T.reshape(H, W, -1)
    spatial = (offsets**2).sum(-1) / (2 * 5.0**2)
    colour = (patches - image[..., None]) ** 2 / (2 * 0.2**2)
    weights = torch.exp(-spatial - colour)
    return patches, weights / weights.sum(-1, keepdim=True)


@torch.compile
def matching_cost(depth, normal, rays, patches, weights, offsets, sources, rots, transs):
    # plane through the pixel's point: n . X = d
    plane_d = (normal * rays).sum(-1) * depth
    offset_rays = rays[:, :, None, :] + torch.cat([offsets, torch.zeros_like(offsets[:, :1])], -1) / FOCAL
    z = plane_d[..., None] / (normal[:, :, None, :] * offset_rays).sum(-1)
    points = offset_rays * z[..., None]
    mean_r = (weights * patches).sum(-1, keepdim=True)
    var_r = (weights * (patches - mean_r) ** 2).sum(-1)
    costs = []
    for i in range(len(sources)):
        q = points @ rots[i].T + transs[i]
        uv = (q @ K.T)[..., :2] / q[..., 2:].clamp(min=0.1)
        grid = uv / torch.tensor([W - 1, H - 1], device=uv.device) * 2 - 1
        sampled = F.grid_sample(
            sources[i][None, None],
            grid.view(1, H, -1, 2),
            mode="bilinear",
            padding_mode="zeros",
            align_corners=True,
        ).view(H, W, -1)
        mean_s = (weights * sampled).sum(-1, keepdim=True)
        var_s = (weights * (sampled - mean_s) ** 2).sum(-1)
        cov = (weights * (patches - mean_r) * (sampled - mean_s)).sum(-1)
        ncc = cov / torch.sqrt(var_r * var_s + 1e-8)
        costs.append(1 - ncc)
    costs = torch.stack(costs).sort(0).values
    return costs[: max(1, len(sources) // 2)].mean(0)


def reconstruct(ref, images, poses, offsets):
    rays = pixel_rays()
    patches, weights = reference_patches(images[ref], offsets)
    r0, t0 = poses[ref]
    sources, rots, transs = [], [], []
    for i, (r, t) in enumerate(poses):
        if i != ref:
            sources.append(images[i])
            rots.append(r @ r0.T)
            transs.append(t - r @ r0.T @ t0)
    args = (rays, patches, weights, offsets, sources, rots, transs)

    depth = Z_NEAR + (Z_FAR - Z_NEAR) * torch.rand(H, W, device=device)
    normal = F.normalize(
        torch.randn(H, W, 3, device=device) * 0.3 - torch.tensor([0, 0, 1.0], device=device), dim=-1
    )
    cost = matching_cost(depth, normal, *args)

    def consider(d, n):
        nonlocal depth, normal, cost
        d = d.clamp(Z_NEAR, Z_FAR)
        c = matching_cost(d, n, *args)
        better = c < cost
        depth = torch.where(better, d, depth)
        normal = torch.where(better[..., None], n, normal)
        cost = torch.where(better, c, cost)

    for it in range(ITERS):
        for dv, du in [(0, 1), (1, 0), (0, -1), (-1, 0), (0, 5), (5, 0), (0, -5), (-5, 0)]:
            n = torch.roll(normal, (dv, du), (0, 1))
            plane = torch.roll((normal * rays).sum(-1) * depth, (dv, du), (0, 1))
            consider(plane / (n * rays).sum(-1), n)
        shrink = 0.5**it
        consider(depth + shrink * torch.randn_like(depth), normal)
        consider(depth, F.normalize(normal + shrink * 0.3 * torch.randn_like(normal), dim=-1))
        consider(Z_NEAR + (Z_FAR - Z_NEAR) * torch.rand_like(depth), normal)
    return depth, cost


def main():
    poses = [camera(i, VIEWS) for i in range(VIEWS)]
    shots = [photograph(*p) for p in poses]
    images = [s[0] for s in shots]
    offsets = patch_offsets()
    for ref in range(REFS):
        with torch.no_grad():
            depth, cost = reconstruct(ref + (VIEWS - REFS) // 2, images, poses, offsets)
        truth = shots[ref + (VIEWS - REFS) // 2][1]
        error = (depth - truth).abs()
        print(
            f"view {ref}: median error {error.median().item() * 100:.2f} cm, within 5 cm "
            f"{(error < 0.05).float().mean().item():.3f}, mean cost {cost.mean().item():.3f}"
        )


if __name__ == "__main__":
    main()
