"""Neural vocoder: transposed 1-d convolutions and dilated residual stacks."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class ResStack(nn.Module):
    def __init__(self, ch, kernel=3, dilations=(1, 3, 5)):
        super().__init__()
        self.c1 = nn.ModuleList(
            [nn.Conv1d(ch, ch, kernel, padding=d * (kernel - 1) // 2, dilation=d) for d in dilations]
        )
        self.c2 = nn.ModuleList([nn.Conv1d(ch, ch, kernel, padding=(kernel - 1) // 2) for _ in dilations])

    def forward(self, x):
        for a, b in zip(self.c1, self.c2):
            x = x + b(F.leaky_relu(a(F.leaky_relu(x, 0.1)), 0.1))
        return x


class Vocoder(nn.Module):
    def __init__(self, ch=256, rates=(8, 8, 4)):
        super().__init__()
        self.pre = nn.Conv1d(80, ch, 7, padding=3)
        self.ups, self.res = nn.ModuleList(), nn.ModuleList()
        for r in rates:
            self.ups.append(nn.ConvTranspose1d(ch, ch // 2, 2 * r, r, padding=r // 2))
            ch //= 2
            self.res.append(nn.ModuleList([ResStack(ch, 3), ResStack(ch, 7)]))
        self.post = nn.Conv1d(ch, 1, 7, padding=3)

    def forward(self, mel):
        x = self.pre(mel)
        for up, stacks in zip(self.ups, self.res):
            x = up(F.leaky_relu(x, 0.1))
            x = sum(s(x) for s in stacks) / len(stacks)
        return torch.tanh(self.post(F.leaky_relu(x)))


def build(device, compiled):
    torch.manual_seed(0)
    model = Vocoder().to(device).eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    mel = torch.randn(pick(4, 1), 80, pick(128, 8), device=device)

    @torch.inference_mode()
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
