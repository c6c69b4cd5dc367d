"""Video stabilisation back end.

The front end (tracker) gives us K putative matches per frame pair; here we
fit a homography per pair with RANSAC + DLT on the GPU, accumulate the camera
path, smooth it, and warp the frame by the correction.  Matches and frames are
synthetic.
"""

import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--frames", type=int, default=36)
parser.add_argument("--matches", type=int, default=1500)
parser.add_argument("--hypotheses", type=int, default=1024)
parser.add_argument("--thresh", type=float, default=2.0, help="inlier threshold in pixels")
parser.add_argument("--height", type=int, default=1080)
parser.add_argument("--width", type=int, default=1920)
parser.add_argument("--radius", type=int, default=8, help="smoothing window")
opt = parser.parse_args()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
WARMUP = 3


# --------------------------------------------------------------------- geometry
def normalise(pts):
    """Hartley normalisation; pts (..., P, 2) -> pts', T (..., 3, 3)"""
    mean = pts.mean(dim=-2, keepdim=True)
    centred = pts - mean
    scale = 2**0.5 / centred.norm(dim=-1).mean(dim=-1).clamp_min(1e-6)
    T = torch.zeros(*pts.shape[:-2], 3, 3, device=pts.device, dtype=pts.dtype)
    T[..., 0, 0] = scale
    T[..., 1, 1] = scale
    T[..., 0, 2] = -scale * mean[..., 0, 0]
    T[..., 1, 2] = -scale * mean[..., 0, 1]
    T[..., 2, 2] = 1.0
    return centred * scale[..., None, None], T


def dlt(src, dst, weights=None):
    """Direct linear transform. src, dst (..., P, 2) -> H (..., 3, 3)"""
    s, Ts = normalise(src)
    d, Td = normalise(dst)
    x, y = s[..., 0], s[..., 1]
    u, v = d[..., 0], d[..., 1]
    one, zero = torch.ones_like(x), torch.zeros_like(x)
    r1 = torch.stack([-x, -y, -one, zero, zero, zero, u * x, u * y, u], dim=-1)
    r2 = torch.stack([zero, zero, zero, -x, -y, -one, v * x, v * y, v], dim=-1)
    if weights is not None:
        r1 = r1 * weights[..., None]
        r2 = r2 * weights[..., None]
    A = torch.cat([r1, r2], dim=-2)
    _, _, Vh = torch.linalg.svd(A)
    Hn = Vh[..., -1, :].reshape(*A.shape[:-2], 3, 3)
    H = torch.linalg.inv(Td) @ Hn @ Ts
    return H / H[..., 2:3, 2:3]


def transfer_error(H, src, dst):
    """H (N, 3, 3), points (P, 2) -> (N, P) forward transfer error"""
    homog = F.pad(src, (0, 1), value=1.0)
    proj = homog @ H.transpose(-1, -2)
    uv = proj[..., :2] / proj[..., 2:3].clamp_min(1e-6)
    return (uv - dst).norm(dim=-1)


@torch.compile
def ransac_homography(src, dst, n_hyp: int, thresh: float):
    pick = torch.randint(src.shape[0], (n_hyp, 4), device=src.device)
    models = dlt(src[pick], dst[pick])
    err = transfer_error(models, src, dst)
    # truncated quadratic (MSAC) cost
    cost = err.pow(2).clamp_max(thresh**2).nan_to_num(thresh**2).sum(dim=1)
    best = models.index_select(0, cost.argmin().view(1))
    # polish with all the inliers
    w = (transfer_error(best, src, dst)[0] < thresh).to(src.dtype)
    H = dlt(src, dst, weights=w)
    return H, w.mean()


@torch.compile
def warp_frame(frame, H):
    """Backward warp (C, h, w) uint8 frame by the pixel homography H."""
    c, h, w = frame.shape
    ys, xs = torch.meshgrid(
        torch.arange(h, device=frame.device, dtype=torch.float32),
        torch.arange(w, device=frame.device, dtype=torch.float32),
        indexing="ij",
    )
    p = torch.stack([xs, ys, torch.ones_like(xs)], dim=-1) @ H.T
    uv = p[..., :2] / p[..., 2:]
    grid = torch.stack([uv[..., 0] / (w - 1), uv[..., 1] / (h - 1)], dim=-1) * 2 - 1
    out = F.grid_sample(frame.float()[None], grid[None], padding_mode="border", align_corners=True)
    return out[0].round().clamp(0, 255).to(torch.uint8)


# -------------------------------------------------------------------- synthetic
def shaky_pair(rng, k):
    a = rng.normal(0, 0.01)
    tx, ty = rng.normal(0, 6, 2)
    px, py = rng.normal(0, 2e-6, 2)
    H = np.array([[np.cos(a), -np.sin(a), tx], [np.sin(a), np.cos(a), ty], [px, py, 1.0]])
    src = rng.uniform([0, 0], [opt.width, opt.height], (k, 2))
    q = np.c_[src, np.ones(k)] @ H.T
    dst = q[:, :2] / q[:, 2:] + rng.normal(0, 0.6, (k, 2))
    bad = rng.random(k) < 0.35
    dst[bad] += rng.normal(0, 60, (bad.sum(), 2))
    return src.astype(np.float32), dst.astype(np.float32)


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(11)
    frame = torch.randint(0, 256, (3, opt.height, opt.width), dtype=torch.uint8, device=device)
    pairs = [shaky_pair(rng, opt.matches) for _ in range(opt.frames + WARMUP)]

    path = np.eye(3)
    history, ratios, times = [], [], []
    checksum = 0.0
    for i, (src, dst) in enumerate(pairs):
        t0 = time.perf_counter()
        src = torch.from_numpy(src).to(device)
        dst = torch.from_numpy(dst).to(device)
        H, ratio = ransac_homography(src, dst, opt.hypotheses, opt.thresh)
        path = H.double().cpu().numpy() @ path
        history.append(path)
        smooth = np.mean(history[-opt.radius :], axis=0)
        correction = torch.tensor(smooth @ np.linalg.inv(path), dtype=torch.float32, device=device)
        stable = warp_frame(frame, torch.linalg.inv(correction))
        if device.type == "cuda":
            torch.cuda.synchronize()
        if i >= WARMUP:
            times.append(time.perf_counter() - t0)
            ratios.append(ratio.item())
            checksum += stable[:, ::64, ::64].float().mean().item()

    print(f"inlier ratio {np.mean(ratios):.3f}  checksum {checksum / len(times):.3f}")
    print(f"per frame: median {1e3 * np.median(times):.2f} ms, p95 {1e3 * np.percentile(times, 95):.2f} ms")


if __name__ == "__main__":
    main()
