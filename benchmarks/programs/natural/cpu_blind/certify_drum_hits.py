"""Randomised-smoothing certificates for a drum-hit classifier.

For each log-mel clip we classify many Gaussian-perturbed copies and turn the
vote counts into a certified L2 radius (Cohen et al., 2019).
"""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES = ["kick", "snare", "hat", "tom", "clap", "ride"]


class DrumNet(nn.Module):
    def __init__(self, n_classes=len(CLASSES), width=8):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 5, stride=4, padding=2)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.bn2 = nn.BatchNorm2d(2 * width)
        self.conv3 = nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.fc = nn.Linear(4 * width, n_classes)

    def forward(self, x):
        x = F.silu(self.bn1(self.stem(x)))
        x = F.silu(self.bn2(self.conv2(x)))
        x = F.silu(self.bn3(self.conv3(x)))
        return self.fc(x.mean((2, 3)))


class Smooth(nn.Module):
    def __init__(self, base, sigma, n_classes):
        super().__init__()
        self.base = base
        self.sigma = sigma
        self.n_classes = n_classes

    def forward(self, clip, copies: int):
        batch = clip.unsqueeze(0).expand(copies, -1, -1, -1)
        noisy = batch + self.sigma * torch.randn_like(batch)
        votes = self.base(noisy).argmax(-1)
        return F.one_hot(votes, self.n_classes).sum(0)


def synth_clips(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, len(CLASSES), (n,), generator=g)
    mel = torch.linspace(0, 1, 64)[None, :, None]
    t = torch.linspace(0, 1, 80)[None, None, :]
    centre = (0.1 + 0.15 * y.float())[:, None, None]
    decay = (4 + 2 * y.float())[:, None, None]
    env = torch.exp(-decay * t) * torch.exp(-(((mel - centre) / 0.12) ** 2))
    x = 2.0 * env + 0.05 * torch.randn(n, 64, 80, generator=g)
    return x.unsqueeze(1), y


def train_base(net, steps=40, sigma=0.25):
    x, y = synth_clips(512, seed=0)
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=8e-3, total_steps=steps)
    for step in range(steps):
        idx = torch.randint(0, len(x), (64,))
        xb = x[idx] + sigma * torch.randn(64, 1, 64, 80)
        loss = F.cross_entropy(net(xb), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
    return loss.item()


def certified_radius(counts, sigma, alpha=0.001):
    n = int(counts.sum())
    top = int(counts.argmax())
    p = counts[top].item() / n
    # Hoeffding lower bound on the top-class probability
    p_low = p - math.sqrt(math.log(1 / alpha) / (2 * n))
    if p_low <= 0.5:
        return top, 0.0
    z = math.sqrt(2) * torch.erfinv(torch.tensor(2 * p_low - 1)).item()
    return top, sigma * z


def main():
    torch.manual_seed(5)
    torch.set_num_threads(2)
    net = DrumNet()
    print(f"base classifier loss {train_base(net):.4f}")
    net.eval()

    sigma = 0.25
    smooth = torch.compile(Smooth(net, sigma, len(CLASSES)))
    clips, labels = synth_clips(10, seed=1)
    radii, correct = [], 0
    t0 = time.perf_counter()
    with torch.inference_mode():
        for clip, label in zip(clips, labels):
            counts = torch.zeros(len(CLASSES), dtype=torch.long)
            for _ in range(4):
                counts += smooth(clip, 400)
            pred, radius = certified_radius(counts, sigma)
            correct += int(pred == label)
            radii.append(radius)
    dt = time.perf_counter() - t0
    r = torch.tensor(radii)
    print(f"clean acc {correct / len(clips):.2f}  mean radius {r.mean():.3f}  median {r.median():.3f}")
    print(f"{dt / len(clips) * 1e3:.1f} ms per certificate")


if __name__ == "__main__":
    main()
