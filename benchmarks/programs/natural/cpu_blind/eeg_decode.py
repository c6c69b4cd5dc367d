"""Motor imagery decoding from EEG: filter-bank CNN with log-variance features, 22 channels, 4 classes."""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1234)

FS = 128
N_CH, N_T, N_CLASS = 22, 320, 4
BANDS = [(4, 8), (8, 12), (12, 16), (16, 20), (20, 24), (24, 32)]


def synth_trials(n, gen):
    """Pink-ish background plus class dependent mu/beta desynchronisation with a spatial pattern."""
    white = torch.randn(n, N_CH, N_T, generator=gen)
    f = torch.fft.rfftfreq(N_T, 1 / FS).clamp_min(0.5)
    x = torch.fft.irfft(torch.fft.rfft(white) / f.sqrt(), n=N_T)
    labels = torch.randint(N_CLASS, (n,), generator=gen)
    patterns = F.normalize(torch.randn(N_CLASS, N_CH, generator=torch.Generator().manual_seed(9)), dim=1)
    t = torch.arange(N_T) / FS
    phase = 2 * math.pi * torch.rand(n, 1, generator=gen)
    freq = 9.0 + 4.0 * torch.rand(n, 1, generator=gen)
    rhythm = torch.sin(2 * math.pi * freq * t + phase) + 0.5 * torch.sin(4 * math.pi * freq * t + phase)
    for c in range(N_CLASS):
        gain = torch.where(labels == c, 0.35, 1.0)[:, None, None]
        roll = torch.roll(rhythm, 13 * c, dims=1)
        x = x + 0.35 * gain * patterns[c][None, :, None] * roll[:, None, :]
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True), labels


class FilterBank(nn.Module):
    """Zero-phase band-pass filters with soft edges, applied in the frequency domain."""

    def __init__(self, bands, fs, edge=1.0):
        super().__init__()
        self.bands, self.fs, self.edge = bands, fs, edge

    def forward(self, x):
        n = x.shape[-1]
        freqs = torch.fft.rfftfreq(n, 1 / self.fs, device=x.device)
        spec = torch.fft.rfft(x)
        out = []
        for lo, hi in self.bands:
            mask = torch.sigmoid((freqs - lo) / self.edge * 4) * torch.sigmoid((hi - freqs) / self.edge * 4)
            out.append(torch.fft.irfft(spec * mask, n=n))
        x = torch.stack(out, 1)  # (batch, band, channel, time)
        return x / (x.std(dim=(2, 3), keepdim=True) + 1e-6)


class ConstrainedConv(nn.Conv2d):
    """Convolution whose filters are renormalised to a maximum norm."""

    def __init__(self, *args, max_norm=2.0, **kw):
        super().__init__(*args, **kw)
        self.max_norm = max_norm

    def forward(self, x):
        norm = self.weight.flatten(1).norm(dim=1).clamp_min(1e-6)
        scale = (self.max_norm / norm).clamp_max(1.0)
        return self._conv_forward(x, self.weight * scale[:, None, None, None], self.bias)


class LogVariance(nn.Module):
    def __init__(self, windows):
        super().__init__()
        self.windows = windows

    def forward(self, x):
        x = x.reshape(*x.shape[:-1], self.windows, -1)
        return torch.log(x.var(dim=-1).clamp(1e-6, 1e6))


class FBCNet(nn.Module):
    def __init__(self, m=8, windows=4, p=0.2):
        super().__init__()
        nb = len(BANDS)
        self.bank = FilterBank(BANDS, FS)
        self.spatial = ConstrainedConv(nb, nb * m, (N_CH, 1), groups=nb)
        self.bn = nn.BatchNorm2d(nb * m)
        self.act = nn.SiLU()
        self.feat = LogVariance(windows)
        self.drop = nn.Dropout(p)
        self.head = nn.Linear(nb * m * windows, N_CLASS)

    def forward(self, x):
        x = self.bank(x)
        x = self.act(self.bn(self.spatial(x)))
        return self.head(self.drop(self.feat(x).flatten(1)))


def augment(x, gen):
    """Random channel dropout and amplitude jitter."""
    keep = (torch.rand(x.shape[0], N_CH, 1, generator=gen) > 0.05).float()
    gain = 1 + 0.1 * torch.randn(x.shape[0], 1, 1, generator=gen)
    return x * keep * gain


def accuracy(net, x, y):
    net.eval()
    with torch.no_grad():
        pred = torch.cat([net(part).argmax(1) for part in x.split(32)])
    return (pred == y).float().mean().item()


def main():
    gen = torch.Generator().manual_seed(4)
    x_train, y_train = synth_trials(640, gen)
    x_val, y_val = synth_trials(240, gen)

    net = FBCNet()
    model = torch.compile(net)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=6e-3, total_steps=60)
    print(f"{sum(p.numel() for p in net.parameters())} parameters")

    start = time.time()
    batch = 32
    for epoch in range(3):
        net.train()
        order = torch.randperm(len(x_train), generator=gen)
        total, hits = 0.0, 0
        for i in range(0, len(order), batch):
            idx = order[i : i + batch]
            logits = model(augment(x_train[idx], gen))
            loss = F.cross_entropy(logits, y_train[idx], label_smoothing=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item() * len(idx)
            hits += (logits.argmax(1) == y_train[idx]).sum().item()
        print(
            f"epoch {epoch}  loss {total / len(order):.4f}  train acc {hits / len(order):.3f}  "
            f"val acc {accuracy(model, x_val, y_val):.3f}  {time.time() - start:.1f}s",
            flush=True,
        )


if __name__ == "__main__":
    main()
