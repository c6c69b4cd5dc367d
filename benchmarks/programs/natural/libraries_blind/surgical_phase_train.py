"""Frame-wise recognition of surgical gestures from robot kinematics with a small Conformer.

Trials of different length (19 kinematic channels per arm) are padded to one length; every frame gets one of
ten gesture labels. After each epoch the frame accuracy and an edit-like segment count are reported.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from conformer import ConformerBlock
from torch.utils.data import DataLoader, Dataset

CHANNELS = 38
GESTURES = 10
MAX_LEN = 256


class SutureTrials(Dataset):
    def __init__(self, n, seed):
        gen = torch.Generator().manual_seed(seed)
        proto = torch.Generator().manual_seed(1)
        centre = torch.randn(GESTURES, CHANNELS, generator=proto)
        freq = 0.05 + 0.3 * torch.rand(GESTURES, CHANNELS, generator=proto)
        self.items = []
        for _ in range(n):
            length = int(torch.randint(120, MAX_LEN + 1, (1,), generator=gen))
            labels, frames = [], []
            while len(labels) < length:
                g = int(torch.randint(GESTURES, (1,), generator=gen))
                d = int(torch.randint(15, 50, (1,), generator=gen))
                t = torch.arange(d)[:, None].float()
                motion = centre[g] * 0.5 + torch.sin(freq[g] * t + torch.rand(1, generator=gen) * 6)
                frames.append(motion + 0.5 * torch.randn(d, CHANNELS, generator=gen))
                labels += [g] * d
            self.items.append((torch.cat(frames)[:length], torch.tensor(labels[:length])))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    xs, ys = zip(*batch)
    lengths = torch.tensor([len(x) for x in xs])
    x = torch.zeros(len(xs), MAX_LEN, CHANNELS)
    y = torch.full((len(xs), MAX_LEN), -100)
    for i, (xi, yi) in enumerate(zip(xs, ys)):
        x[i, : len(xi)] = xi
        y[i, : len(yi)] = yi
    mask = torch.arange(MAX_LEN)[None, :] < lengths[:, None]
    return x, y, mask


class GestureConformer(nn.Module):
    def __init__(self, dim=128, depth=2, dropout=0.1):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(CHANNELS, dim), nn.LayerNorm(dim), nn.GELU())
        self.blocks = nn.ModuleList(
            [
                ConformerBlock(
                    dim=dim,
                    dim_head=32,
                    heads=4,
                    ff_mult=4,
                    conv_expansion_factor=2,
                    conv_kernel_size=31,
                    attn_dropout=dropout,
                    ff_dropout=dropout,
                    conv_dropout=dropout,
                )
                for _ in range(depth)
            ]
        )
        self.head = nn.Linear(dim, GESTURES)

    def forward(self, x, mask):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x, mask=mask)
            x = x.masked_fill(~mask.unsqueeze(-1), 0.0)
        return self.head(x)


def segments(labels):
    return int((labels[1:] != labels[:-1]).sum()) + 1


def evaluate(model, loader):
    model.eval()
    right = total = 0
    seg_true = seg_pred = 0
    with torch.no_grad():
        for x, y, mask in loader:
            pred = model(x, mask).argmax(-1)
            right += (pred[mask] == y[mask]).sum().item()
            total += mask.sum().item()
            for p, t, m in zip(pred, y, mask):
                seg_pred += segments(p[m])
                seg_true += segments(t[m])
    model.train()
    return right / total, seg_pred / seg_true


def main():
    torch.manual_seed(3)
    train_loader = DataLoader(SutureTrials(40, 10), batch_size=4, shuffle=True, collate_fn=collate)
    test_loader = DataLoader(SutureTrials(12, 20), batch_size=4, collate_fn=collate)

    model = GestureConformer()
    compiled = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=8e-4, weight_decay=0.01)
    epochs = 2
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=1.5e-3, total_steps=epochs * len(train_loader))

    for epoch in range(epochs):
        running = 0.0
        for x, y, mask in train_loader:
            logits = compiled(x, mask)
            loss = F.cross_entropy(logits.transpose(1, 2), y, ignore_index=-100, label_smoothing=0.05)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            running += loss.item()
        acc, ratio = evaluate(model, test_loader)
        print(
            f"epoch {epoch + 1}: loss {running / len(train_loader):.3f}  "
            f"frame accuracy {acc:.3f}  segment ratio {ratio:.2f}"
        )


if __name__ == "__main__":
    main()
