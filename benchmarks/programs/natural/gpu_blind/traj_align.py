"""Superpose molecular-dynamics trajectories on their mean structure and report RMSF.

Each trajectory (a different number of frames) is aligned by weighted Kabsch
superposition, iterating between alignment and re-averaging of the reference.
"""

import os
import time

import numpy as np
import torch

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cpu" if SMOKE else "cuda"
ATOMS = 20 if SMOKE else 192
FRAMES = [33, 50] if SMOKE else [20000, 24576, 28000, 32768, 26001, 30000]
PASSES = 1 if SMOKE else 5
ROUNDS = 2


def random_rotations(n, gen):
    q = torch.randn(n, 4, device=DEV, generator=gen)
    q = q / q.norm(dim=-1, keepdim=True)
    w, x, y, z = q.unbind(-1)
    return torch.stack(
        [
            1 - 2 * (y * y + z * z),
            2 * (x * y - z * w),
            2 * (x * z + y * w),
            2 * (x * y + z * w),
            1 - 2 * (x * x + z * z),
            2 * (y * z - x * w),
            2 * (x * z - y * w),
            2 * (y * z + x * w),
            1 - 2 * (x * x + y * y),
        ],
        dim=-1,
    ).view(n, 3, 3)


def make_trajectory(native, flex, n, seed):
    gen = torch.Generator(device=DEV).manual_seed(seed)
    noise = flex[None, :, None] * torch.randn(n, native.shape[0], 3, device=DEV, generator=gen)
    rot = random_rotations(n, gen)
    shift = 20 * torch.randn(n, 1, 3, device=DEV, generator=gen)
    return (native + noise) @ rot.transpose(1, 2) + shift


def optimal_rotation(mobile, target, weights):
    """Rotations R[f] that best map each centred frame onto the centred target."""
    cov = torch.einsum("fni,nj->fij", mobile * weights[:, None], target)
    u, _, vt = torch.linalg.svd(cov)
    d = torch.sign(torch.linalg.det(u @ vt))
    flip = torch.ones(cov.shape[0], 3, device=cov.device, dtype=cov.dtype)
    flip[:, 2] = d
    return u @ (flip[:, :, None] * vt)


def center(x, weights):
    return x - (x * weights[:, None]).sum(dim=-2, keepdim=True) / weights.sum()


@torch.compile(dynamic=True)
def superpose(frames, reference, weights):
    x = center(frames, weights)
    ref = center(reference, weights)
    for _ in range(ROUNDS):
        rot = optimal_rotation(x, ref, weights)
        x = x @ rot
        ref = center(x.mean(dim=0), weights)
    dev = (x - ref).square().sum(-1)
    rmsd = ((dev * weights).sum(-1) / weights.sum()).sqrt()
    rmsf = dev.mean(dim=0).sqrt()
    return rmsd, rmsf, ref


def sync():
    if DEV == "cuda":
        torch.cuda.synchronize()


@torch.no_grad()
def main():
    rng = np.random.default_rng(5)
    walk = np.cumsum(rng.normal(size=(ATOMS, 3)) * 2.2, axis=0)
    native = torch.from_numpy(walk - walk.mean(0)).float().to(DEV)
    flex = torch.linspace(0.2, 0.9, ATOMS, device=DEV)
    weights = torch.from_numpy(rng.choice([12.01, 14.01, 16.0], size=ATOMS)).float().to(DEV)
    trajs = [make_trajectory(native, flex, n, 10 + i) for i, n in enumerate(FRAMES)]

    for tr in trajs[:2]:
        superpose(tr, tr[0], weights)
    sync()
    t0 = time.perf_counter()
    results = []
    for _ in range(PASSES):
        results = [superpose(tr, tr[0], weights) for tr in trajs]
    sync()
    dt = (time.perf_counter() - t0) / (PASSES * len(trajs))

    rmsd = torch.cat([r[0] for r in results])
    rmsf = torch.stack([r[1] for r in results]).mean(0)
    expected = flex * 3**0.5
    err = ((rmsf - expected).abs() / expected).mean().item()
    ok = bool(torch.isfinite(rmsd).all()) and err < (0.3 if SMOKE else 0.05)
    print(f"ok={ok} mean rmsd={rmsd.mean().item():.4f} rmsf error={err:.4f}")
    print(f"time per call: {dt * 1e3:.3f} ms")
    assert ok


if __name__ == "__main__":
    main()
