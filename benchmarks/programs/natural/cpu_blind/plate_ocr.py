"""Licence-plate reader: CRNN (conv stem, bidirectional LSTM, CTC) trained on
synthetic plates rendered from a bitmap font with noise, blur and shear."""

import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

CHARS = "0123456789ABCDEFGHKLMNPRSTUVXYZ"
GLYPHS = {}
H, W = 32, 128
BATCH, STEPS = 24, 70


def make_font(rng):
    """5x7 random but fixed glyphs, one per character, all distinct."""
    for c in CHARS:
        bits = torch.tensor([[rng.random() < 0.5 for _ in range(5)] for _ in range(7)])
        bits[0, rng.randrange(5)] = True
        GLYPHS[c] = bits.float()


def render(text, rng):
    img = torch.zeros(H, W)
    x = rng.randint(4, 10)
    for ch in text:
        sx, sy = rng.choice([2, 3]), 3
        g = GLYPHS[ch].repeat_interleave(sy, 0).repeat_interleave(sx, 1)
        top = rng.randint(3, H - g.shape[0] - 3)
        w = min(g.shape[1], W - x)
        img[top : top + g.shape[0], x : x + w] = g[:, :w]
        x += g.shape[1] + rng.randint(1, 3)
        if x >= W - 12:
            break
    return img


class Plates(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.items = []
        for _ in range(n):
            text = "".join(rng.choice(CHARS) for _ in range(rng.randint(5, 7)))
            self.items.append((render(text, rng), text))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        img, text = self.items[i]
        return img, torch.tensor([CHARS.index(c) + 1 for c in text])


def collate(batch):
    imgs = torch.stack([b[0] for b in batch])[:, None]
    labels = torch.cat([b[1] for b in batch])
    lens = torch.tensor([len(b[1]) for b in batch])
    return imgs, labels, lens


def augment(x):
    b = x.shape[0]
    theta = torch.zeros(b, 2, 3)
    theta[:, 0, 0] = 1 + 0.06 * torch.randn(b)
    theta[:, 1, 1] = 1 + 0.06 * torch.randn(b)
    theta[:, 0, 1] = 0.08 * torch.randn(b)
    grid = F.affine_grid(theta, x.shape, align_corners=False)
    x = F.grid_sample(x, grid, align_corners=False)
    gain = 0.6 + 0.4 * torch.rand(b, 1, 1, 1)
    return x * gain + 0.15 * torch.randn_like(x)


def conv(i, o, pool):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1, bias=False),
        nn.BatchNorm2d(o),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(pool),
    )


class CRNN(nn.Module):
    def __init__(self, classes, hidden=96):
        super().__init__()
        self.stem = nn.Sequential(conv(1, 16, 2), conv(16, 32, (2, 1)), conv(32, 48, 2), conv(48, 64, (2, 1)))
        self.rnn = nn.LSTM(64 * 2, hidden, num_layers=2, bidirectional=True, batch_first=True, dropout=0.1)
        self.fc = nn.Linear(2 * hidden, classes)

    def forward(self, x):
        f = self.stem(x)
        b, c, h, w = f.shape
        seq = f.permute(0, 3, 1, 2).reshape(b, w, c * h)
        out, _ = self.rnn(seq)
        return self.fc(out).log_softmax(-1)


def greedy(logp):
    texts = []
    for row in logp.argmax(-1).tolist():
        prev, s = 0, ""
        for k in row:
            if k != prev and k:
                s += CHARS[k - 1]
            prev = k
        texts.append(s)
    return texts


def main():
    torch.manual_seed(8)
    make_font(random.Random(8))
    data = Plates(BATCH * STEPS, 8)
    loader = torch.utils.data.DataLoader(data, BATCH, shuffle=True, collate_fn=collate, drop_last=True)
    model = torch.compile(CRNN(len(CHARS) + 1))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 5e-3, total_steps=STEPS)
    t0 = time.perf_counter()
    for step, (imgs, labels, lens) in enumerate(loader):
        logp = model(augment(imgs))
        n_in = torch.full((BATCH,), logp.shape[1])
        loss = F.ctc_loss(logp.transpose(0, 1), labels, n_in, lens, zero_infinity=True)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        sched.step()
        if step % 10 == 9:
            dt = (time.perf_counter() - t0) / 10
            print(
                f"step {step + 1:3d}  ctc {loss.item():.3f}  {BATCH / dt:6.1f} plates/s  "
                f"lr {sched.get_last_lr()[0]:.4f}"
            )
            t0 = time.perf_counter()
    model.eval()
    with torch.no_grad():
        imgs, labels, lens = collate([data[i] for i in range(BATCH)])
        print("sample:", greedy(model(imgs))[:4], "truth:", [t for _, t in data.items[:4]])


if __name__ == "__main__":
    main()
