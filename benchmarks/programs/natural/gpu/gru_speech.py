"""Convolutional front-end and a bidirectional nn.GRU, inference."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class SpeechNet(nn.Module):
    def __init__(self, feats=80, hidden=256, classes=40):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 32, (5, 5), (2, 2), 2),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20),
            nn.Conv2d(32, 32, (5, 5), (2, 1), 2),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20),
        )
        self.gru = nn.GRU(32 * (feats // 4), hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.norm = nn.LayerNorm(2 * hidden)
        self.out = nn.Linear(2 * hidden, classes)

    def forward(self, mel):
        x = self.conv(mel[:, None])
        b, c, f, t = x.shape
        x = x.permute(0, 3, 1, 2).reshape(b, t, c * f)
        x, _ = self.gru(x)
        return F.log_softmax(self.out(F.gelu(self.norm(x))), -1)


def build(device, compiled):
    torch.manual_seed(0)
    model = SpeechNet().to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    mel = torch.randn(pick(16, 2), 80, pick(400, 24), device=device)

    @torch.no_grad()
    def step():
        return model(mel)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
