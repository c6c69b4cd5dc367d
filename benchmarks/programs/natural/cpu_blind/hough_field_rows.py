"""Crop row detection from a drone: excess green, gradient, gradient-directed Hough voting, peaks."""

import math

import torch
import torch.nn.functional as F

torch.manual_seed(31)
H, W = 360, 480
N_THETA = 180
RHO_STEP = 2.0
DIAG = math.hypot(H, W)
N_RHO = int(2 * DIAG / RHO_STEP) + 1
SPREAD = 4  # angle bins on both sides of the gradient direction
N_LINES = 12
FRAMES = 90

yy, xx = torch.meshgrid(torch.arange(H) - H / 2, torch.arange(W) - W / 2, indexing="ij")
XX, YY = xx.float(), yy.float()
COS = torch.cos(torch.arange(N_THETA) * math.pi / N_THETA)
SIN = torch.sin(torch.arange(N_THETA) * math.pi / N_THETA)
OFFSETS = torch.arange(-SPREAD, SPREAD + 1).view(-1, 1, 1)
SOBEL = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8
KERNELS = torch.stack([SOBEL, SOBEL.T]).unsqueeze(1)
g = torch.exp(-0.5 * (torch.arange(-4, 5) / 1.8) ** 2)
GAUSS = g / g.sum()


def vegetation(frame):
    """Smoothed excess green index of an (3, H, W) image in 0..1."""
    s = frame.sum(0) + 1e-3
    r, gr, b = frame[0] / s, frame[1] / s, frame[2] / s
    exg = (2 * gr - r - b)[None, None]
    exg = F.conv2d(F.pad(exg, (4, 4, 0, 0), mode="reflect"), GAUSS.view(1, 1, 1, -1))
    exg = F.conv2d(F.pad(exg, (0, 0, 4, 4), mode="reflect"), GAUSS.view(1, 1, -1, 1))
    return exg


@torch.compile
def hough_votes(frame):
    exg = vegetation(frame)
    grad = F.conv2d(F.pad(exg, (1, 1, 1, 1), mode="replicate"), KERNELS)[0]
    gx, gy = grad[0], grad[1]
    mag = torch.sqrt(gx * gx + gy * gy)
    mag = torch.where(mag > 1.5 * mag.mean(), mag, torch.zeros_like(mag))

    theta = torch.atan2(gy, gx)  # the normal of the edge
    t0 = torch.round(theta * (N_THETA / math.pi)).long()
    t = torch.remainder(t0 + OFFSETS, N_THETA)  # (2S+1, H, W)
    rho = XX * COS[t] + YY * SIN[t]
    r = torch.round((rho + DIAG) / RHO_STEP).long().clamp(0, N_RHO - 1)
    weight = mag * torch.exp(-0.5 * (OFFSETS / (SPREAD / 2)) ** 2)

    acc = torch.zeros(N_THETA * N_RHO)
    acc.scatter_add_(0, (t * N_RHO + r).flatten(), weight.flatten())
    return acc.view(N_THETA, N_RHO)


def peaks(acc):
    """Strongest local maxima: (theta, rho) of the N_LINES best lines."""
    a = acc[None, None]
    # wrap around in theta: rho changes its sign there
    a = torch.cat([a[:, :, -3:].flip(-1), a, a[:, :, :3].flip(-1)], dim=2)
    local = F.max_pool2d(a, (7, 9), 1, (3, 4))
    keep = torch.where(a == local, a, torch.zeros_like(a))[0, 0, 3:-3]
    val, idx = keep.flatten().topk(N_LINES)
    theta = (idx // N_RHO) * (math.pi / N_THETA)
    rho = (idx % N_RHO) * RHO_STEP - DIAG
    return theta, rho, val


def field_frame(heading, spacing, phase):
    """A field seen from above: rows of plants at a heading, with soil texture and gaps."""
    d = XX * math.cos(heading) + YY * math.sin(heading)
    along = -XX * math.sin(heading) + YY * math.cos(heading)
    row = torch.exp(-0.5 * (torch.sin((d + phase) * math.pi / spacing) / 0.22) ** 2)
    gaps = (torch.sin(along / 9 + 3 * torch.sin(d / 40)) > -0.8).float()
    plant = row * gaps
    soil = 0.35 + 0.06 * torch.randn(H, W)
    frame = torch.stack(
        [soil * (1 - 0.5 * plant), soil * 0.8 + 0.25 * plant, soil * 0.55 * (1 - 0.3 * plant)]
    )
    return (frame + 0.02 * torch.randn(3, H, W)).clamp(0, 1)


def dominant_heading(theta, val):
    """Mean direction of the lines (angles double, since a line has no sign)."""
    c, s = (val * torch.cos(2 * theta)).sum(), (val * torch.sin(2 * theta)).sum()
    return 0.5 * torch.atan2(s, c)


def main():
    errors, strength = [], []
    for k in range(FRAMES):
        heading = 0.5 + 0.4 * math.sin(k / 15)
        frame = field_frame(heading, 26 + 4 * math.sin(k / 9), 3.0 * k)
        acc = hough_votes(frame)
        theta, rho, val = peaks(acc)
        est = dominant_heading(theta, val).item()
        err = (est - heading + math.pi / 2) % math.pi - math.pi / 2
        errors.append(abs(math.degrees(err)))
        strength.append((val.mean() / acc.mean()).item())
        if k % 30 == 0:
            print(
                f"frame {k:3d} heading {math.degrees(heading):6.2f} estimated {math.degrees(est):6.2f}"
                f"  rhos {[round(v) for v in sorted(rho.tolist())[:5]]}"
            )
    e = torch.tensor(errors)
    print(f"heading error: mean {e.mean():.2f} deg, worst {e.max():.2f} deg")
    print(f"peak over mean: {sum(strength) / len(strength):.0f}")


if __name__ == "__main__":
    main()
