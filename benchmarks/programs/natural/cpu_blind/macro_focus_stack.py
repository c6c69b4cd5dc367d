"""Focus stacking of a macro series.

A rail moves the camera through the subject and each frame is sharp in one slice only. Every stack is corrected for
focus breathing (magnification changes with focus distance), a sharpness measure is computed per frame, the depth map
is the (median-cleaned) index of the sharpest frame, and the result is blended by a Laplacian pyramid whose weights
follow that map. Stacks from a session have different numbers of frames.
"""

import torch
import torch.nn.functional as F

torch.manual_seed(60)
H, W = 176, 264
LEVELS = 4
STACKS = [9, 9, 12, 9, 14, 12, 9, 9, 11, 12, 14, 9, 9, 12, 11, 9]

LUMA = torch.tensor([0.2126, 0.7152, 0.0722]).view(1, 3, 1, 1)
BINOMIAL = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0])
BINOMIAL = torch.outer(BINOMIAL, BINOMIAL) / 256.0
SML_X = torch.tensor([[0.0, 0, 0], [-1, 2, -1], [0, 0, 0]])
SML = torch.stack([SML_X, SML_X.T]).unsqueeze(1)


def blur(x):
    c = x.shape[1]
    k = BINOMIAL.expand(c, 1, 5, 5)
    return F.conv2d(F.pad(x, (2, 2, 2, 2), mode="reflect"), k, groups=c)


def down(x):
    return blur(x)[:, :, ::2, ::2]


def up(x, size):
    return F.interpolate(x, size=size, mode="bilinear", align_corners=False)


def linearise(x):
    return torch.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


def encode(x):
    x = x.clamp(0, 1)
    return torch.where(x <= 0.0031308, 12.92 * x, 1.055 * x.clamp(min=1e-8) ** (1 / 2.4) - 0.055)


def unbreathe(frames, magnification):
    """Scale every frame about the centre to the magnification of the middle one."""
    n = frames.shape[0]
    rel = magnification / magnification[n // 2]
    theta = torch.zeros(n, 2, 3)
    theta[:, 0, 0] = rel
    theta[:, 1, 1] = rel
    grid = F.affine_grid(theta, frames.shape, align_corners=False)
    return F.grid_sample(frames, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def sharpness(frames):
    y = (frames * LUMA).sum(1, keepdim=True)
    ml = F.conv2d(F.pad(y, (1, 1, 1, 1), mode="reflect"), SML).abs().sum(1, keepdim=True)
    return F.avg_pool2d(ml, 9, stride=1, padding=4, count_include_pad=False)


def median5(index):
    x = F.pad(index[None, None].float(), (2, 2, 2, 2), mode="replicate")
    patches = x.unfold(2, 5, 1).unfold(3, 5, 1).reshape(*index.shape, 25)
    return patches.median(dim=-1).values.long()


def laplacian_pyramid(x):
    out = []
    for _ in range(LEVELS):
        small = down(x)
        out.append(x - up(small, x.shape[-2:]))
        x = small
    out.append(x)
    return out


def fuse(raw, magnification):
    frames = unbreathe(linearise(raw.float() / 255.0), magnification)
    gain = frames.mean(dim=(1, 2, 3), keepdim=True)
    frames = frames * (gain.mean() / gain)  # flash-to-flash differences
    s = sharpness(frames)[:, 0]
    depth = median5(s.argmax(0))
    confidence = s.max(0).values / (s.mean(0) + 1e-6)
    weights = F.one_hot(depth, raw.shape[0]).permute(2, 0, 1).unsqueeze(1).float()

    fused = []
    for level, lap in enumerate(laplacian_pyramid(frames)):
        w = weights / weights.sum(0, keepdim=True).clamp(min=1e-6)
        fused.append((w * lap).sum(0, keepdim=True))
        weights = down(weights)
    out = fused[-1]
    for lap in reversed(fused[:-1]):
        out = up(out, lap.shape[-2:]) + lap
    out = out + 0.4 * (out - blur(out))
    return (encode(out)[0] * 255 + 0.5).to(torch.uint8), depth, confidence


def shoot(n):
    """A bumpy subject seen through a shallow depth of field."""
    texture = sum(
        F.interpolate(torch.rand(1, 3, H // k, W // k), size=(H, W), mode="bicubic") / 4
        for k in (2, 4, 8, 24)
    )
    relief = F.interpolate(torch.rand(1, 1, 5, 7), size=(H, W), mode="bicubic")[0, 0].clamp(0, 1)
    blurred = [texture]
    for _ in range(8):
        blurred.append(blur(blur(blurred[-1])))
    blurred = torch.cat(blurred)
    frames = []
    for i in range(n):
        coc = ((relief - i / (n - 1)).abs() * 16).clamp(max=7.99)
        lo = coc.long()
        f = coc - lo
        pick = lambda k: blurred.gather(0, k.expand(1, 3, H, W))[0]
        frames.append(pick(lo) * (1 - f) + pick(lo + 1) * f)
    stack = torch.stack(frames).clamp(0, 1) + 0.01 * torch.randn(n, 3, H, W)
    magnification = 1 + 0.004 * torch.arange(n) / n
    return (stack.clamp(0, 1) * 255).to(torch.uint8), magnification, relief


def main():
    stacker = torch.compile(fuse)
    report = []
    with torch.no_grad():
        for number, n in enumerate(STACKS):
            raw, mag, relief = shoot(n)
            image, depth, confidence = stacker(raw, mag)
            err = (depth.float() / (n - 1) - relief).abs().median().item()
            detail = (image.float() - blur(image.float()[None])[0]).abs().mean().item()
            single = (raw[n // 2].float() - blur(raw[n // 2].float()[None])[0]).abs().mean().item()
            report.append((n, err, confidence.mean().item(), detail / single))
    for n in sorted(set(STACKS)):
        rows = torch.tensor([r[1:] for r in report if r[0] == n])
        e, c, d = rows.mean(0).tolist()
        print(
            f"{n:2d} frames ({len(rows)} stacks): depth error {e:.3f}  confidence {c:.2f}  detail gain {d:.2f}x"
        )


if __name__ == "__main__":
    main()
