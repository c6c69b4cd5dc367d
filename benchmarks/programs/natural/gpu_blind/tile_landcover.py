"""Land-cover classification of 64x64 four-band satellite tiles.

The whole training set fits in GPU memory as uint8, so there is no DataLoader:
each step draws a batch of indices and everything else happens on the device.
"""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEVICE = "cpu" if SMOKE else "cuda"
N_TILES = 600 if SMOKE else 1_200_000
BATCH = 32 if SMOKE else 512
STEPS = 4 if SMOKE else 400
WIDTH = 16 if SMOKE else 64
N_CLASSES = 10

MEAN = (82.0, 90.0, 101.0, 120.0)
STD = (61.0, 60.0, 60.0, 66.0)


def sync():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def make_tiles():
    g = torch.Generator(device=DEVICE).manual_seed(11)
    tiles = torch.empty(N_TILES, 4, 64, 64, dtype=torch.uint8, device=DEVICE)
    labels = torch.randint(N_CLASSES, (N_TILES,), device=DEVICE, generator=g)
    spectra = torch.rand(N_CLASSES, 4, 1, 1, device=DEVICE, generator=g) * 120 + 40
    chunk = min(20_000, N_TILES)
    for lo in range(0, N_TILES, chunk):
        hi = min(lo + chunk, N_TILES)
        noise = torch.randn(hi - lo, 4, 64, 64, device=DEVICE, generator=g) * 45
        tiles[lo:hi] = (noise + spectra[labels[lo:hi]]).clamp_(0, 255).to(torch.uint8)
    return tiles, labels


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(h))
        return F.relu(h + self.skip(x))


class TileNet(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.stem = nn.Conv2d(4, w, 3, 2, 1)
        self.blocks = nn.Sequential(Block(w, w, 1), Block(w, 2 * w, 2), Block(2 * w, 4 * w, 2))
        self.head = nn.Linear(4 * w, N_CLASSES)
        self.register_buffer("mean", torch.tensor(MEAN).view(1, 4, 1, 1))
        self.register_buffer("std", torch.tensor(STD).view(1, 4, 1, 1))

    def forward(self, x):
        x = (x.float() - self.mean) / self.std
        x = x.contiguous(memory_format=torch.channels_last)
        x = self.blocks(F.relu(self.stem(x)))
        return self.head(x.mean((2, 3)))


@torch.compile(mode="reduce-overhead")
def batch_loss(model, tiles, labels, idx, flip):
    x = tiles[idx]
    y = labels[idx]
    x = torch.where(flip[:, None, None, None], x.flip(3), x)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        logits = model(x)
    return F.cross_entropy(logits.float(), y, label_smoothing=0.05)


def main():
    torch.manual_seed(0)
    tiles, labels = make_tiles()
    print(f"{N_TILES} tiles, {tiles.numel() / 2**30:.1f} GiB resident")
    model = TileNet(WIDTH).to(DEVICE).to(memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)

    perm = torch.randperm(N_TILES, device=DEVICE)
    running = torch.zeros((), device=DEVICE)
    log_every = max(1, STEPS // 6)
    sync()
    t0 = time.perf_counter()
    for step in range(STEPS):
        idx = perm[step * BATCH : (step + 1) * BATCH]
        flip = torch.rand(BATCH, device=DEVICE) < 0.5
        loss = batch_loss(model, tiles, labels, idx, flip)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        running += loss.detach()
        if (step + 1) % log_every == 0:
            dt = time.perf_counter() - t0
            print(
                f"step {step + 1:4d}  loss {running.item() / log_every:.4f}  "
                f"{BATCH * log_every / dt:9.0f} tiles/s"
            )
            running.zero_()
            sync()
            t0 = time.perf_counter()


if __name__ == "__main__":
    main()
