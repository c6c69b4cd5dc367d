"""Mid-price direction from limit order book snapshots (DeepLOB-like conv + LSTM), bf16 on the CPU."""

import statistics
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    levels: int = 10
    window: int = 40
    horizon: int = 10
    ticks: int = 6000
    batch: int = 12
    epochs: int = 2
    lr: float = 1.5e-3
    bf16: bool = True


def simulate_book(cfg, seed=0):
    """Queue imbalance drives the mid price; volumes are AR(1) in the log."""
    g = torch.Generator().manual_seed(seed)
    L, T = cfg.levels, cfg.ticks
    imb = torch.zeros(T)
    noise = torch.randn(T, generator=g)
    for t in range(1, T):
        imb[t] = 0.97 * imb[t - 1] + 0.24 * noise[t]
    mid = 100 + torch.cumsum(0.01 * (0.5 * imb + 0.6 * torch.randn(T, generator=g)), 0)
    depth = torch.arange(L).float()
    base = 1.5 + 0.1 * depth + 0.3 * torch.randn(T, L, generator=g)
    bid_v = torch.exp(base + 0.5 * imb[:, None] * torch.exp(-depth / 3))
    ask_v = torch.exp(
        1.5 + 0.1 * depth + 0.3 * torch.randn(T, L, generator=g) - 0.5 * imb[:, None] * torch.exp(-depth / 3)
    )
    bid_p = mid[:, None] - 0.01 * (depth + 0.5)
    ask_p = mid[:, None] + 0.01 * (depth + 0.5)
    book = torch.stack([ask_p, ask_v, bid_p, bid_v], dim=2).reshape(T, 4 * L)
    return book, mid


class BookWindows(Dataset):
    def __init__(self, book, mid, cfg, lo, hi):
        self.cfg = cfg
        # rolling z-score with the statistics of the past 500 ticks
        cs = F.pad(book.double().cumsum(0), (0, 0, 1, 0))
        cs2 = F.pad(book.double().square().cumsum(0), (0, 0, 1, 0))
        t = torch.arange(1, book.shape[0] + 1)
        a = (t - 500).clamp(min=0)
        n = (t - a)[:, None]
        mean = (cs[t] - cs[a]) / n
        var = (cs2[t] - cs2[a]) / n - mean**2
        self.x = ((book - mean) / var.clamp(min=1e-6).sqrt()).clamp(-5, 5).float()
        fut = mid.unfold(0, cfg.horizon, 1).mean(1)
        ret = fut[1:] - mid[: fut.shape[0] - 1]
        self.y = torch.where(ret > 0.012, 2, torch.where(ret < -0.012, 0, 1))
        self.idx = torch.arange(lo + cfg.window, min(hi, self.y.shape[0]), 4)

    def __len__(self):
        return len(self.idx)

    def __getitem__(self, i):
        t = int(self.idx[i])
        return self.x[t - self.cfg.window + 1 : t + 1][None], self.y[t]


def conv_block(cin, cout, k, s):
    return nn.Sequential(
        nn.Conv2d(cin, cout, k, stride=s),
        nn.LeakyReLU(0.01),
        nn.BatchNorm2d(cout),
        nn.Conv2d(cout, cout, (4, 1), padding="same"),
        nn.LeakyReLU(0.01),
        nn.BatchNorm2d(cout),
    )


class DeepLOB(nn.Module):
    def __init__(self, cfg, ch=8, hidden=32):
        super().__init__()
        self.features = nn.Sequential(
            conv_block(1, ch, (1, 2), (1, 2)),
            conv_block(ch, ch, (1, 2), (1, 2)),
            conv_block(ch, ch, (1, cfg.levels), 1),
        )
        self.inc1 = nn.Sequential(
            nn.Conv2d(ch, 2 * ch, 1), nn.LeakyReLU(), nn.Conv2d(2 * ch, 2 * ch, (3, 1), padding="same")
        )
        self.inc2 = nn.Sequential(
            nn.Conv2d(ch, 2 * ch, 1), nn.LeakyReLU(), nn.Conv2d(2 * ch, 2 * ch, (5, 1), padding="same")
        )
        self.inc3 = nn.Sequential(nn.MaxPool2d((3, 1), 1, (1, 0)), nn.Conv2d(ch, 2 * ch, 1))
        self.lstm = nn.LSTM(6 * ch, hidden, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(hidden, 3)

    def forward(self, x):
        h = self.features(x)
        h = torch.cat([F.leaky_relu(b(h)) for b in (self.inc1, self.inc2, self.inc3)], dim=1)
        h = h.squeeze(3).transpose(1, 2)
        h, _ = self.lstm(h)
        return self.out(self.drop(h[:, -1]))


@torch.compile
def train_step(model, opt, x, y, weight, bf16):
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y, weight=weight, label_smoothing=0.05)
    loss.backward()
    opt.step()
    return loss.detach(), (logits.argmax(1) == y).float().mean()


def evaluate(model, loader, bf16):
    model.eval()
    conf = torch.zeros(3, 3, dtype=torch.long)
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        for x, y in loader:
            p = model(x).argmax(1)
            conf += torch.bincount(y * 3 + p, minlength=9).view(3, 3)
    model.train()
    prec = conf.diag() / conf.sum(0).clamp(min=1)
    rec = conf.diag() / conf.sum(1).clamp(min=1)
    f1 = (2 * prec * rec / (prec + rec).clamp(min=1e-9)).mean().item()
    return conf, f1


def main():
    cfg = Config()
    torch.set_num_threads(2)
    torch.manual_seed(0)
    book, mid = simulate_book(cfg)
    cut = int(cfg.ticks * 0.75)
    tr = BookWindows(book, mid, cfg, 500, cut)
    te = BookWindows(book, mid, cfg, cut, cfg.ticks - cfg.horizon)
    train_loader = DataLoader(tr, cfg.batch, shuffle=True)
    test_loader = DataLoader(te, 64)

    weight = 1.0 / torch.bincount(tr.y[tr.idx], minlength=3).clamp(min=1).float()
    weight = weight / weight.mean()
    model = DeepLOB(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        times, losses = [], []
        for x, y in train_loader:
            t = time.perf_counter()
            loss, acc = train_step(model, opt, x, y, weight, cfg.bf16)
            times.append(time.perf_counter() - t)
            losses.append(loss)
        for group in opt.param_groups:
            group["lr"] *= 0.5
        conf, f1 = evaluate(model, test_loader, cfg.bf16)
        print(
            f"epoch {epoch} loss {torch.stack(losses).mean():.4f} macro-F1 {f1:.4f} "
            f"step median {statistics.median(times) * 1e3:.1f} ms"
        )
    print("confusion", conf.tolist())


if __name__ == "__main__":
    main()
