"""Content-aware thumbnails: shrink a gallery of photos by seam carving.

Port of my old numpy notebook.  Every photo loses one vertical seam at a time
(Avidan & Shamir, with the "forward energy" of Rubinstein 2008) until it has
the width of the gallery column.
"""

import time

import torch
import torch.nn.functional as F

HEIGHT = 120
WIDTH = 208
TARGET = 176
PHOTOS = 20
BIG = 1e6


def make_photo(seed):
    """A fake landscape: sky gradient, hills, a few blobs (people, trees), noise."""
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.linspace(0, 1, HEIGHT), torch.linspace(0, 1, WIDTH), indexing="ij")
    img = torch.stack([0.4 + 0.2 * yy, 0.6 + 0.1 * yy, 0.9 - 0.3 * yy])
    ridge = 0.55 + 0.1 * torch.sin(6.0 * xx + 6.28 * torch.rand(1, generator=g))
    ridge = ridge + 0.03 * torch.sin(31.0 * xx + 6.28 * torch.rand(1, generator=g))
    hill = (yy > ridge).float()
    ground = torch.tensor([0.25, 0.42, 0.18]).view(3, 1, 1)
    img = img * (1 - hill) + ground * hill
    for _ in range(7):
        cy, cx, r = torch.rand(3, generator=g).tolist()
        blob = torch.exp(-(((yy - 0.3 - 0.6 * cy) / 0.12) ** 2 + ((xx - cx) / (0.02 + 0.06 * r)) ** 2))
        col = torch.rand(3, 1, 1, generator=g)
        img = img * (1 - blob) + col * blob
    img = img + 0.02 * torch.randn(img.shape, generator=g)
    return img.clamp(0, 1)


def to_luma(img):
    r, g, b = img
    return 0.299 * r + 0.587 * g + 0.114 * b


@torch.compile
def find_seam(img, keep):
    """Cheapest vertical seam.  img [3, H, W], keep [H, W] = extra cost of protected pixels."""
    luma = to_luma(img)
    padded = F.pad(luma[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    left, right, up = padded[1:-1, :-2], padded[1:-1, 2:], padded[:-2, 1:-1]
    cost_up = (right - left).abs()
    cost_left = cost_up + (up - left).abs()
    cost_right = cost_up + (up - right).abs()

    # dynamic programming from the top row to the bottom one
    total = cost_up[0] + keep[0]
    back = []
    height = img.shape[1]
    for y in range(1, height):
        from_left = F.pad(total[:-1], (1, 0), value=BIG) + cost_left[y]
        from_up = total + cost_up[y]
        from_right = F.pad(total[1:], (0, 1), value=BIG) + cost_right[y]
        best, move = torch.stack([from_left, from_up, from_right]).min(dim=0)
        total = best + keep[y]
        back.append(move - 1)

    # walk back up
    x = total.argmin().view(1)
    seam = [x]
    for move in reversed(back):
        x = x + move.gather(0, x)
        seam.append(x)
    seam = torch.cat(seam[::-1])
    return seam, total.min()


def remove_seam(img, keep, seam):
    h, w = keep.shape
    cols = torch.arange(w - 1).expand(h, w - 1)
    cols = cols + (cols >= seam[:, None]).long()
    img = img.gather(2, cols.expand(3, h, w - 1))
    keep = keep.gather(1, cols)
    return img, keep


def protect_faces(seed):
    """Boxes of the "face detector": these pixels must not be carved."""
    g = torch.Generator().manual_seed(1000 + seed)
    keep = torch.zeros(HEIGHT, WIDTH)
    for _ in range(2):
        y = int(torch.randint(20, HEIGHT - 40, (1,), generator=g))
        x = int(torch.randint(5, WIDTH - 30, (1,), generator=g))
        keep[y : y + 24, x : x + 18] = 4.0
    return keep


@torch.no_grad()
def carve(seed):
    img, keep = make_photo(seed), protect_faces(seed)
    spent, times = 0.0, []
    while img.shape[2] > TARGET:
        t0 = time.perf_counter()
        seam, cost = find_seam(img, keep)
        times.append(time.perf_counter() - t0)
        img, keep = remove_seam(img, keep, seam)
        spent += float(cost)
    return img, spent, times


def main():
    torch.manual_seed(0)
    start = time.perf_counter()
    all_times = []
    for p in range(PHOTOS):
        thumb, spent, times = carve(p)
        all_times += times
        print(
            f"photo {p:2d}: {WIDTH} -> {thumb.shape[2]} px, energy removed {spent:8.2f}, "
            f"median {1e3 * sorted(times)[len(times) // 2]:6.2f} ms per seam"
        )
        assert thumb.shape == (3, HEIGHT, TARGET)
    print(f"{len(all_times)} seams in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
