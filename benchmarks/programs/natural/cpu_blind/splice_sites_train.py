"""Splice donor / acceptor prediction from pre-mRNA sequence with a dilated residual 1-D network (SpliceAI-like)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(41)

LENGTH = 1600
CONTEXT = 200  # bases cropped from each side of the prediction
BATCH = 8
STEPS = 40


class ResUnit(nn.Module):
    def __init__(self, ch, width, dilation):
        super().__init__()
        pad = dilation * (width - 1) // 2
        self.bn1 = nn.BatchNorm1d(ch)
        self.conv1 = nn.Conv1d(ch, ch, width, dilation=dilation, padding=pad)
        self.bn2 = nn.BatchNorm1d(ch)
        self.conv2 = nn.Conv1d(ch, ch, width, dilation=dilation, padding=pad)

    def forward(self, x):
        h = self.conv1(F.relu(self.bn1(x)))
        h = self.conv2(F.relu(self.bn2(h)))
        return x + h


class SpliceNet(nn.Module):
    def __init__(self, ch=32):
        super().__init__()
        self.stem = nn.Conv1d(4, ch, 1)
        self.skip0 = nn.Conv1d(ch, ch, 1)
        plan = [(11, 1), (11, 1), (11, 4), (11, 4), (21, 4)]
        self.units = nn.ModuleList(ResUnit(ch, w, d) for w, d in plan)
        self.skips = nn.ModuleList(nn.Conv1d(ch, ch, 1) for _ in plan)
        self.head = nn.Conv1d(ch, 3, 1)

    def forward(self, x):
        x = self.stem(x)
        acc = self.skip0(x)
        for unit, skip in zip(self.units, self.skips):
            x = unit(x)
            acc = acc + skip(x)
        return self.head(acc[:, :, CONTEXT:-CONTEXT])


DONOR = [2, 3, 0, 0, 2, 3]  # GTAAGT as A0 C1 G2 T3
ACCEPTOR = [3, 3, 3, 1, 3, 1, 0, 2]  # TTTCTCAG


def make_batch(gen):
    seq = torch.randint(0, 4, (BATCH, LENGTH), generator=gen)
    target = torch.zeros(BATCH, LENGTH, dtype=torch.long)
    for b in range(BATCH):
        pos = 120
        while pos < LENGTH - 200:
            intron = int(torch.randint(60, 160, (1,), generator=gen))
            seq[b, pos : pos + 6] = torch.tensor(DONOR)
            end = pos + intron
            seq[b, end - 8 : end] = torch.tensor(ACCEPTOR)
            target[b, pos] = 1
            target[b, end - 1] = 2
            pos = end + int(torch.randint(80, 200, (1,), generator=gen))
        # decoys: a donor motif with no acceptor downstream
        d = int(torch.randint(0, 100, (1,), generator=gen))
        seq[b, d : d + 6] = torch.tensor(DONOR)
    x = F.one_hot(seq, 4).float().transpose(1, 2).contiguous()
    return x, target[:, CONTEXT:-CONTEXT]


def focal_loss(logits, target, weight):
    logp = F.log_softmax(logits, dim=1)
    logpt = logp.gather(1, target[:, None])[:, 0]
    w = weight[target]
    return (-w * (1 - logpt.exp()) ** 2 * logpt).sum() / w.sum()


def topk_accuracy(logits, target, cls):
    """Of the k highest scoring positions, k the number of true sites: the share that is right."""
    score = logits.softmax(1)[:, cls].flatten()
    truth = (target == cls).flatten()
    k = int(truth.sum())
    return truth[score.topk(k).indices].float().mean().item()


def main():
    model = SpliceNet()
    model.compile()
    loss_fn = torch.compile(focal_loss)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 6e-3, total_steps=STEPS)
    weight = torch.tensor([1.0, 25.0, 25.0])
    gen = torch.Generator().manual_seed(2)
    running = 0.0
    for step in range(1, STEPS + 1):
        x, y = make_batch(gen)
        loss = loss_fn(model(x), y, weight)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        running += loss.item()
        if step % 10 == 0:
            print(f"step {step}: loss {running / 10:.4f}")
            running = 0.0
    model.eval()
    with torch.no_grad():
        x, y = make_batch(gen)
        logits = model(x)
    print(
        f"top-k accuracy donor {topk_accuracy(logits, y, 1):.3f}, acceptor {topk_accuracy(logits, y, 2):.3f}"
    )


if __name__ == "__main__":
    main()
