"""Inspection of weld seams with a laser line sensor: stripe -> height profile -> small network -> defect list."""

from collections import Counter

import torch
import torch.nn as nn

ROWS, COLS = 192, 640
BATCH = 8
MM_PER_ROW = 0.05
CLASSES = ["sound", "undercut", "pore", "spatter"]


def stripe_profile(frames, row_index):
    """Sub-pixel row of the laser line in each column: centre of gravity over the threshold."""
    img = frames.float() / 255.0
    background = img.mean(dim=1, keepdim=True)
    noise = img.std(dim=1, keepdim=True)
    w = torch.relu(img - background - 0.5 * noise)
    peak = w.amax(dim=1, keepdim=True)
    w = torch.where(w > 0.4 * peak, w, torch.zeros_like(w)) ** 2
    mass = w.sum(dim=1)
    row = (w * row_index[:, None]).sum(dim=1) / (mass + 1e-6)
    spread = torch.sqrt(((row_index[:, None] - row[:, None]) ** 2 * w).sum(dim=1) / (mass + 1e-6))
    valid = (peak.squeeze(1) > 0.15) & (spread < 6.0)
    return row, spread, peak.squeeze(1), valid


def fill_gaps(row, valid):
    """Columns without a stripe get the last good value to the left."""
    cols = torch.arange(row.shape[1]).expand_as(row)
    last = torch.where(valid, cols, torch.zeros_like(cols)).cummax(dim=1).values
    return row.gather(1, last)


def detrend(z):
    t = torch.linspace(-1, 1, z.shape[1])
    slope = (z * t).sum(1, keepdim=True) / (t * t).sum()
    return z - z.mean(1, keepdim=True) - slope * t


class SeamNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(3, width, 9, padding=4),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Conv1d(width, width, 9, padding=4, groups=width),
            nn.Conv1d(width, width, 1),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Conv1d(width, len(CLASSES), 5, padding=2),
        )

    def forward(self, x):
        return self.net(x)


class WeldInspector(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = SeamNet()
        self.register_buffer("row_index", torch.arange(ROWS).float())

    def forward(self, frames):
        row, spread, peak, valid = stripe_profile(frames, self.row_index)
        if not valid.all():
            row = fill_gaps(row, valid)
        height = -detrend(row) * MM_PER_ROW
        feats = torch.stack([height, spread / 3.0 - 1.0, peak * 2 - 1.0], dim=1)
        prob = torch.softmax(self.net(feats), dim=1)
        score, label = prob.max(dim=1)
        return height, label, score, valid.float().mean(dim=1)


def runs(label, height, min_len=6):
    """Runs of equal labels in one profile as (class, first column, last column, mean height)."""
    change = (label[1:] != label[:-1]).nonzero().flatten() + 1
    edges = [0] + change.tolist() + [len(label)]
    found = []
    for a, b in zip(edges, edges[1:]):
        k = int(label[a])
        if k != 0 and b - a >= min_len:
            found.append((CLASSES[k], a, b - 1, float(height[a:b].mean())))
    return found


def camera_batch(gen):
    """Raw 8 bit frames: a tilted plate with a weld bead, sometimes a pore, undercut or lost stripe."""
    x = torch.linspace(-1, 1, COLS)
    tilt = 8 * (torch.rand(BATCH, 1, generator=gen) - 0.5)
    bead = 28 * torch.exp(-0.5 * (x / 0.16) ** 2) * (0.8 + 0.4 * torch.rand(BATCH, 1, generator=gen))
    centre = 130 + tilt * x - bead
    pos = 1.2 * torch.rand(BATCH, 1, generator=gen) - 0.6
    depth = 10 * torch.randn(BATCH, 1, generator=gen).relu()
    centre = centre + depth * torch.exp(-0.5 * ((x - pos) / 0.03) ** 2)
    bright = 0.5 + 0.4 * torch.rand(BATCH, COLS, generator=gen)
    bright[torch.rand(BATCH, COLS, generator=gen) < 0.01] = 0.0
    rows = torch.arange(ROWS).view(1, ROWS, 1)
    img = bright[:, None] * torch.exp(-0.5 * ((rows - centre[:, None]) / 1.8) ** 2)
    img = img + 0.06 * torch.rand(BATCH, ROWS, COLS, generator=gen)
    return (img.clamp(0, 1) * 255).to(torch.uint8)


def main():
    torch.manual_seed(4)
    gen = torch.Generator().manual_seed(17)
    inspector = WeldInspector().eval()
    inspect = torch.compile(inspector)
    reel = [camera_batch(gen) for _ in range(12)]
    tally = Counter()
    confidence, good, beads = 0.0, 0.0, []
    n_batches = 120
    with torch.no_grad():
        for i in range(n_batches):
            height, label, score, valid = inspect(reel[i % len(reel)])
            for b in range(0, BATCH, 4):
                for name, *_ in runs(label[b], height[b]):
                    tally[name] += 1
            confidence += score.mean().item()
            good += valid.mean().item()
            beads.append(height.amax(1).mean().item())
    print(
        f"{n_batches * BATCH} profiles, valid columns {good / n_batches:.4f}, confidence {confidence / n_batches:.3f}"
    )
    print(f"bead height {sum(beads) / len(beads):.3f} mm; findings {dict(tally)}")


if __name__ == "__main__":
    main()
