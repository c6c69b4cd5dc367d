"""Diffusion tensor imaging: fit a tensor to each voxel of a diffusion MRI scan and write the scalar maps
(fractional anisotropy, mean, axial and radial diffusivity, colour by direction), slab by slab."""

import os
import time

import torch

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cpu" if SMOKE else "cuda"
SLAB = 500 if SMOKE else 65536  # brain voxels in a slab
SLABS = 4 if SMOKE else 40
SUBJECTS = 1 if SMOKE else 10
N_DIR = 12 if SMOKE else 64
B_VALUE = 1.0  # ms / um^2


def fibonacci_directions(n):
    i = torch.arange(n, dtype=torch.float64) + 0.5
    z = 1 - i / n  # half sphere
    phi = i * 2.399963229728653
    r = torch.sqrt(1 - z * z)
    return torch.stack([r * torch.cos(phi), r * torch.sin(phi), z], 1)


def design_matrix():
    """ln S = ln S0 - b g^T D g, with some b=0 images in front."""
    g = torch.cat([torch.zeros(6, 3, dtype=torch.float64), fibonacci_directions(N_DIR)])
    x, y, z = g.unbind(1)
    cols = [x * x, y * y, z * z, 2 * x * y, 2 * x * z, 2 * y * z]
    return torch.stack([-B_VALUE * c for c in cols] + [torch.ones_like(x)], 1)


def synthetic_slab(design, gen):
    """White matter (cigar-shaped), grey matter (round) and CSF, with Rician noise."""
    n = SLAB
    kind = torch.rand(n, device=DEV, generator=gen)
    wm, csf = kind < 0.45, kind > 0.9
    axis = torch.nn.functional.normalize(torch.randn(n, 3, device=DEV, generator=gen), dim=1)
    par = torch.where(wm, 1.7, torch.where(csf, 3.0, 0.9)) * (
        1 + 0.05 * torch.randn(n, device=DEV, generator=gen)
    )
    per = torch.where(wm, 0.3, torch.where(csf, 2.9, 0.8)) * (
        1 + 0.05 * torch.randn(n, device=DEV, generator=gen)
    )
    d = (
        per[:, None, None] * torch.eye(3, device=DEV)
        + (par - per)[:, None, None] * axis[:, :, None] * axis[:, None]
    )
    p = torch.stack(
        [
            d[:, 0, 0],
            d[:, 1, 1],
            d[:, 2, 2],
            d[:, 0, 1],
            d[:, 0, 2],
            d[:, 1, 2],
            torch.full((n,), 6.9, device=DEV),
        ],
        1,
    )
    s = torch.exp(p @ design.T)
    re = s + 12 * torch.randn(s.shape, device=DEV, generator=gen)
    im = 12 * torch.randn(s.shape, device=DEV, generator=gen)
    return torch.hypot(re, im), wm


def eigen_system(d):
    """Eigenvalues in falling order and the principal direction of symmetric tensors (N, 3, 3)."""
    a, b, c = d[:, 0, 0], d[:, 1, 1], d[:, 2, 2]
    p, q, r = d[:, 0, 1], d[:, 0, 2], d[:, 1, 2]
    # closed form (trigonometric) eigenvalues
    mean = (a + b + c) / 3
    a, b, c = a - mean, b - mean, c - mean
    scale = torch.sqrt(((a * a + b * b + c * c) / 6 + (p * p + q * q + r * r) / 3).clamp_min(1e-20))
    det = a * (b * c - r * r) - p * (p * c - r * q) + q * (p * r - b * q)
    angle = torch.acos((det / (2 * scale**3)).clamp(-1, 1)) / 3
    e1 = 2 * scale * torch.cos(angle)
    e3 = 2 * scale * torch.cos(angle + 2.0943951023931953)
    e2 = -e1 - e3
    # principal direction: a column of (D - e2)(D - e3); the one with the largest diagonal entry is the safest
    rows = [(a, p, q), (p, b, r), (q, r, c)]
    prod = [
        [
            sum(rows[i][k] * rows[k][j] for k in range(3))
            - (e2 + e3) * rows[i][j]
            + (e2 * e3 if i == j else 0)
            for j in range(3)
        ]
        for i in range(3)
    ]
    x, y, z = prod[0][0], prod[1][1], prod[2][2]
    first, second = (x >= y) & (x >= z), y >= z
    v = torch.stack(
        [torch.where(first, prod[i][0], torch.where(second, prod[i][1], prod[i][2])) for i in range(3)], -1
    )
    v = v * torch.rsqrt(v.square().sum(-1, keepdim=True).clamp_min(1e-24))
    return torch.stack([e1 + mean, e2 + mean, e3 + mean], -1), v


class TensorFit:
    def __init__(self):
        x = design_matrix()
        self.design = x.float().to(DEV)
        self.pinv = torch.linalg.pinv(x).float().to(DEV)
        self.tri = torch.tensor([0, 3, 4, 3, 1, 5, 4, 5, 2], device=DEV)

    @torch.compile
    def maps(self, signal):
        logs = torch.log(signal.clamp_min(1.0))
        params = logs @ self.pinv.T
        d = params[:, self.tri].view(-1, 3, 3)
        vals, v1 = eigen_system(d)
        vals = vals.clamp_min(0)
        md = vals.mean(-1)
        ad, rd = vals[:, 0], vals[:, 1:].mean(-1)
        dev = (vals - md[:, None]).square().sum(-1)
        fa = torch.sqrt(1.5 * dev / vals.square().sum(-1).clamp_min(1e-12)).clamp(0, 1)
        colour = (v1.abs() * fa[:, None] * 255).round().to(torch.uint8)
        resid = (logs - params @ self.design.T).square().mean(-1).sqrt()
        return fa, md, ad, rd, colour, resid


def main():
    torch.manual_seed(0)
    gen = torch.Generator(device=DEV).manual_seed(1)
    fit = TensorFit()
    scans = [synthetic_slab(fit.design, gen) for _ in range(2 if SMOKE else 8)]
    print(f"{SLABS} slabs of {SLAB} voxels, {fit.design.shape[0]} images, {SUBJECTS} subjects")

    start = time.perf_counter()
    for subject in range(SUBJECTS):
        t0 = time.perf_counter()
        hist = torch.zeros(32, device=DEV)
        acc = torch.zeros(4, device=DEV)
        for s in range(SLABS):
            signal, wm = scans[(subject + s) % len(scans)]
            with torch.no_grad():
                fa, md, ad, rd, colour, resid = fit.maps(signal)
            hist += torch.histc(fa, 32, 0, 1)
            acc += torch.stack([fa[wm].mean(), fa[~wm].mean(), md.mean(), resid.mean()])
        fa_wm, fa_rest, md_mean, res = (acc / SLABS).tolist()
        print(
            f"subject {subject:2d}  FA wm {fa_wm:.3f} other {fa_rest:.3f}  MD {md_mean:.3f} um2/ms  rms {res:.4f}"
            f"  mode of FA {hist.argmax().item() / 32:.2f}  {time.perf_counter() - t0:.2f} s"
        )
        assert fa_wm > fa_rest + 0.3
    print(f"total {time.perf_counter() - start:.2f} s, last colour mean {colour.float().mean().item():.1f}")


if __name__ == "__main__":
    main()
