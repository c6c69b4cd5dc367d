"""Single-particle cryo-EM: orientation and shift search by likelihood over a grid, and a back projection step.

Fourier slices of the current volume are compared with CTF-weighted particle images at all grid orientations and
in-plane shifts; each image's posterior is marginalised over shifts, and the best orientations rebuild the volume.
"""

import math

import torch
import torch.nn.functional as F

device = "cuda"
torch.manual_seed(42)

BOX = 96
HALF = BOX // 2 + 1
N_IMAGES = 2048
IMG_BATCH = 512
N_ORIENT = 4096
ORIENT_CHUNK = 512
MAX_SHIFT = 4  # pixels; shifts on a 9 x 9 grid
EM_ITERS = 8
SIGMA2 = 4.0


def random_rotations(n):
    q = F.normalize(torch.randn(n, 4, device=device), dim=1)
    w, x, y, z = q.unbind(1)
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
        dim=1,
    ).view(n, 3, 3)


def phantom():
    ax = torch.arange(BOX, device=device) - BOX // 2
    zz, yy, xx = torch.meshgrid(ax, ax, ax, indexing="ij")
    vol = torch.zeros(BOX, BOX, BOX, device=device)
    for _ in range(25):
        c = torch.randn(3, device=device) * 10
        s = 2 + 3 * torch.rand(1, device=device)
        vol += torch.exp(-((zz - c[0]) ** 2 + (yy - c[1]) ** 2 + (xx - c[2]) ** 2) / (2 * s * s))
    return vol


def to_fourier(vol):
    """Centred transform as two real channels."""
    f = torch.fft.fftshift(torch.fft.fftn(torch.fft.ifftshift(vol)))
    return torch.stack([f.real, f.imag])[None] / BOX**1.5


def half_plane():
    ky = torch.arange(-(BOX // 2), BOX // 2, device=device).float()
    kx = torch.arange(0, HALF, device=device).float()
    ky, kx = torch.meshgrid(ky, kx, indexing="ij")
    return ky.reshape(-1), kx.reshape(-1)


KY, KX = half_plane()
K2 = KY**2 + KX**2
RESOLUTION = (K2 <= (BOX // 2 - 6) ** 2).float()


def ctf(defocus):
    s2 = K2 / (BOX * 1.35) ** 2
    chi = math.pi * 0.0197 * defocus[:, None] * s2 - 0.5 * math.pi * 2.7e7 * 0.0197**3 * s2**2
    return -(0.993 * torch.sin(chi) + 0.118 * torch.cos(chi)) * torch.exp(-60.0 * s2 / 4)


def slices(fvol, rots):
    plane = torch.stack([KX, KY, torch.zeros_like(KX)], dim=1)
    pts = plane @ rots.transpose(1, 2)
    grid = ((pts + BOX // 2) * 2 + 1) / BOX - 1
    s = F.grid_sample(fvol.expand(len(rots), -1, -1, -1, -1), grid[:, None, None], align_corners=False)
    s = s[:, :, 0, 0] * RESOLUTION
    return torch.complex(s[:, 0], s[:, 1])


def shifted(images):
    """All shifts of the images, n x shifts x k."""
    r = torch.arange(-MAX_SHIFT, MAX_SHIFT + 1, device=images.device).float()
    dy, dx = torch.meshgrid(r, r, indexing="ij")
    ang = 2 * math.pi / BOX * (dy.reshape(-1, 1) * KY + dx.reshape(-1, 1) * KX)
    return images[:, None] * torch.polar(torch.ones_like(ang), ang)


@torch.compile
def log_likelihood(fvol, rots, moved, c):
    """Images x orientations, marginal over shifts; and the best shift."""
    proj = slices(fvol, rots)
    power = (c**2) @ (proj.abs() ** 2).t()  # images x orientations
    target = moved * c[:, None]
    a = torch.view_as_real(target).flatten(-2)
    b = torch.view_as_real(proj).flatten(-2)
    cross = torch.einsum("isk,ok->iso", a, b)
    ll = (cross - 0.5 * power[:, None]) / SIGMA2
    return torch.logsumexp(ll, dim=1), ll.argmax(dim=1)


def insert_slices(rots, images, c):
    """Nearest-voxel back projection, Wiener weighted."""
    acc = torch.zeros(BOX**3, 2, device=device)
    wgt = torch.zeros(BOX**3, device=device)
    plane = torch.stack([KX, KY, torch.zeros_like(KX)], dim=1)
    for sign in (1, -1):
        pts = (sign * plane @ rots.transpose(1, 2)).round().long() + BOX // 2
        ok = ((pts >= 0) & (pts < BOX)).all(-1) & (RESOLUTION > 0)
        pts = pts.clamp(0, BOX - 1)
        flat = (pts[..., 2] * BOX + pts[..., 1]) * BOX + pts[..., 0]
        val = images * c if sign == 1 else images.conj() * c
        acc.index_add_(0, flat[ok], torch.view_as_real(val)[ok])
        wgt.index_add_(0, flat[ok], (c**2)[ok])
    f = acc / (wgt[:, None] + 0.5)
    return f.t().reshape(1, 2, BOX, BOX, BOX).contiguous()


@torch.no_grad()
def main():
    truth = to_fourier(phantom())
    grid_rots = random_rotations(N_ORIENT)
    true_idx = torch.randint(0, N_ORIENT, (N_IMAGES,), device=device)
    c = ctf(12000 + 8000 * torch.rand(N_IMAGES, device=device))
    clean = torch.cat([slices(truth, grid_rots[i]) for i in true_idx.split(256)])
    noise = torch.view_as_complex(torch.randn(*clean.shape, 2, device=device))
    scale = clean.abs().mean()
    images = c * clean / scale + 2.0 * noise * RESOLUTION

    fvol = truth / scale + 0.5 * torch.randn_like(truth)
    for it in range(EM_ITERS):
        total, best_rot, best_img = 0.0, [], []
        for lo in range(0, N_IMAGES, IMG_BATCH):
            moved = shifted(images[lo : lo + IMG_BATCH])
            cb = c[lo : lo + IMG_BATCH]
            ll, sh = [], []
            for rots in grid_rots.split(ORIENT_CHUNK):
                l, s = log_likelihood(fvol, rots, moved, cb)
                ll.append(l)
                sh.append(s)
            ll, sh = torch.cat(ll, 1), torch.cat(sh, 1)
            top = ll.argmax(1)
            total += torch.logsumexp(ll, 1).sum().item()
            rows = torch.arange(len(top), device=device)
            best_rot.append(top)
            best_img.append(moved[rows, sh[rows, top]])
        top = torch.cat(best_rot)
        fvol = insert_slices(grid_rots[top], torch.cat(best_img), c)
        right = (top == true_idx).float().mean().item()
        fsc = F.cosine_similarity(fvol.flatten(), truth.flatten(), dim=0).item()
        print(
            f"iteration {it}: log-likelihood {total / N_IMAGES:.3f}, right orientation {right:.3f}, correlation {fsc:.4f}"
        )


if __name__ == "__main__":
    main()
