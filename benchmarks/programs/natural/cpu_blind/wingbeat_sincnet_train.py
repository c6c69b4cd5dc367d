"""Training of a small SincNet that tells mosquito species by the tone of their wings (trap with a microphone)."""

import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(41)

RATE, LENGTH = 8_000, 2_400
SPECIES = 6
TRAIN, VALID, BATCH, EPOCHS = 760, 200, 32, 2


def make_clips(n):
    """A fundamental by species, falling harmonics, an envelope of a passage and some noise of wind."""
    label = torch.randint(SPECIES, (n,))
    t = torch.arange(LENGTH) / RATE
    base = torch.tensor([350.0, 420.0, 480.0, 540.0, 610.0, 690.0])[label] * (1 + 0.04 * torch.randn(n))
    glide = 1 + 0.02 * torch.randn(n, 1) * t
    phase = 2 * math.pi * base[:, None] * glide * t
    clip = torch.zeros(n, LENGTH)
    for h in range(1, 6):
        strength = torch.rand(n, 1) * 0.6**h
        if h == 2:
            strength = strength * (1 + (label[:, None] % 2))
        clip += strength * torch.sin(h * phase + 6.28 * torch.rand(n, 1))
    centre = torch.rand(n, 1) * LENGTH / RATE
    clip *= torch.exp(-((t - centre) ** 2) / 0.02)
    wind = F.avg_pool1d(torch.randn(n, 1, LENGTH), 9, 1, 4).squeeze(1)
    clip += 0.15 * torch.randn(n, LENGTH) + 0.6 * wind
    return clip / clip.std(1, keepdim=True), label


class SincConv(nn.Module):
    """Band-pass filters whose two cut-off frequencies are the only parameters."""

    def __init__(self, filters, width):
        super().__init__()
        self.width = width
        mel = torch.linspace(0, 2595 * math.log10(1 + (RATE / 2 - 150) / 700), filters + 1)
        hz = 700 * (10 ** (mel / 2595) - 1)
        self.low = nn.Parameter(hz[:-1, None] / RATE)
        self.band = nn.Parameter((hz[1:] - hz[:-1])[:, None] / RATE)
        n = torch.arange(-(width // 2), width // 2 + 1).float()
        self.register_buffer("n", n)
        self.register_buffer("window", 0.54 + 0.46 * torch.cos(2 * math.pi * n / width))

    def forward(self, x):
        low = 0.004 + self.low.abs()
        high = (low + 0.006 + self.band.abs()).clamp(max=0.5)
        kernel = 2 * high * torch.sinc(2 * high * self.n) - 2 * low * torch.sinc(2 * low * self.n)
        kernel = kernel * self.window
        kernel = kernel / (2 * (high - low))
        return F.conv1d(x, kernel[:, None, :], padding=self.width // 2)


class WingbeatNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_norm = nn.LayerNorm(LENGTH)
        self.sinc = SincConv(32, 101)
        self.norms = nn.ModuleList([nn.BatchNorm1d(c, momentum=0.05) for c in (32, 48, 48)])
        self.convs = nn.ModuleList([nn.Conv1d(32, 48, 5), nn.Conv1d(48, 48, 5)])
        self.hidden = nn.Sequential(nn.Linear(96, 96), nn.BatchNorm1d(96), nn.LeakyReLU(0.2), nn.Dropout(0.2))
        self.head = nn.Linear(96, SPECIES)

    def forward(self, x):
        x = self.input_norm(x)[:, None, :]
        x = F.max_pool1d(self.sinc(x).abs(), 3)
        x = F.leaky_relu(self.norms[0](x), 0.2)
        for conv, norm in zip(self.convs, self.norms[1:]):
            x = F.max_pool1d(conv(x), 3)
            x = F.leaky_relu(norm(x), 0.2)
        x = torch.cat([x.mean(-1), x.amax(-1)], dim=1)
        return self.head(self.hidden(x))


def validate(model, clips, labels):
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in zip(clips.split(BATCH), labels.split(BATCH)):
            right += (model(x).argmax(1) == y).sum().item()
    model.train()
    return right / len(labels)


def main():
    clips, labels = make_clips(TRAIN)
    valid_clips, valid_labels = make_clips(VALID)
    model = torch.compile(WingbeatNet())
    optimiser = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95, eps=1e-7)
    for epoch in range(EPOCHS):
        order = torch.randperm(TRAIN)
        total = 0.0
        for index in order.split(BATCH):
            x = clips[index] * (0.8 + 0.4 * torch.rand(len(index), 1))
            loss = F.cross_entropy(model(x), labels[index], label_smoothing=0.05)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item() * len(index)
        accuracy = validate(model, valid_clips, valid_labels)
        print(f"epoch {epoch}: training loss {total / TRAIN:.4f}, validation accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
