"""Multi-label finding classifier for chest radiographs: a DenseNet trained with bf16 autocast.

Labels follow the CheXpert convention: 1 present, 0 absent, -1 uncertain (left out of the loss).
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

device = "cuda"
BATCH, SIZE, STEPS, N_FINDINGS = 128, 224, 140, 14
GROWTH, BLOCKS = 32, (4, 6, 8, 6)


class DenseLayer(nn.Module):
    def __init__(self, c_in, growth, bottleneck=4):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(c_in)
        self.conv1 = nn.Conv2d(c_in, bottleneck * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(bottleneck * growth)
        self.conv2 = nn.Conv2d(bottleneck * growth, growth, 3, padding=1, bias=False)

    def forward(self, features):
        x = torch.cat(features, dim=1)
        x = self.conv1(F.relu(self.norm1(x)))
        return self.conv2(F.relu(self.norm2(x)))


class DenseBlock(nn.Module):
    def __init__(self, n_layers, c_in, growth):
        super().__init__()
        self.layers = nn.ModuleList(DenseLayer(c_in + i * growth, growth) for i in range(n_layers))

    def forward(self, x):
        features = [x]
        for layer in self.layers:
            features.append(layer(features))
        return torch.cat(features, dim=1)


class Transition(nn.Sequential):
    def __init__(self, c_in, c_out):
        super().__init__(
            nn.BatchNorm2d(c_in),
            nn.ReLU(inplace=True),
            nn.Conv2d(c_in, c_out, 1, bias=False),
            nn.AvgPool2d(2),
        )


class XrayDenseNet(nn.Module):
    def __init__(self, growth=GROWTH, blocks=BLOCKS, c=64, n_out=N_FINDINGS):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, c, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(c),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        stages = []
        for i, n in enumerate(blocks):
            stages.append(DenseBlock(n, c, growth))
            c += n * growth
            if i + 1 < len(blocks):
                stages.append(Transition(c, c // 2))
                c //= 2
        self.stages = nn.Sequential(*stages)
        self.norm = nn.BatchNorm2d(c)
        self.head = nn.Linear(c, n_out)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight)

    def forward(self, x):
        x = F.relu(self.norm(self.stages(self.stem(x))))
        return self.head(x.mean(dim=(2, 3)))


def make_batch(gen):
    """Noise films with soft opacities; finding k shows as a blob in its own region."""
    labels = torch.randint(-1, 2, (BATCH, N_FINDINGS), generator=gen, device=device)
    yy, xx = torch.meshgrid(
        torch.linspace(-1, 1, SIZE, device=device), torch.linspace(-1, 1, SIZE, device=device), indexing="ij"
    )
    films = torch.randn(BATCH, 1, SIZE, SIZE, generator=gen, device=device) * 0.5
    for k in range(N_FINDINGS):
        cx, cy = 0.7 * math.cos(k * 0.45), 0.7 * math.sin(k * 0.45)
        blob = torch.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / 0.02)
        films += (labels[:, k] == 1).float().view(-1, 1, 1, 1) * blob
    return films.contiguous(memory_format=torch.channels_last), labels


def masked_bce(logits, labels, pos_weight):
    known = (labels >= 0).float()
    loss = F.binary_cross_entropy_with_logits(
        logits, labels.clamp(min=0).float(), pos_weight=pos_weight, reduction="none"
    )
    return (loss * known).sum() / known.sum()


def auroc(score, label):
    order = score.argsort()
    ranks = torch.empty_like(score)
    ranks[order] = torch.arange(1, len(score) + 1, device=score.device, dtype=score.dtype)
    n_pos = (label == 1).sum()
    n_neg = (label == 0).sum()
    return (ranks[label == 1].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


def main():
    torch.manual_seed(7)
    gen = torch.Generator(device=device).manual_seed(7)
    train = [make_batch(gen) for _ in range(8)]
    model = XrayDenseNet().to(device).to(memory_format=torch.channels_last)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2e-3, total_steps=STEPS)
    pos_weight = torch.full((N_FINDINGS,), 1.5, device=device)

    net = torch.compile(model, mode="reduce-overhead")
    running = torch.zeros((), device=device)
    for step in range(STEPS):
        films, labels = train[step % len(train)]
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = net(films)
        loss = masked_bce(logits.float(), labels, pos_weight)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        running += loss.detach()
        if (step + 1) % 35 == 0:
            print(f"step {step + 1:4d}  loss {running.item() / 35:.4f}")
            running.zero_()

    films, labels = train[0]
    with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
        probs = net(films).float().sigmoid()
    scores = []
    for k in range(N_FINDINGS):
        known = labels[:, k] >= 0
        scores.append(auroc(probs[known, k], labels[known, k]).item())
    print("mean AUROC on a training batch", round(sum(scores) / len(scores), 4))


if __name__ == "__main__":
    main()
