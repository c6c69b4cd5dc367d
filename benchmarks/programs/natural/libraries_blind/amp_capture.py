"""Capture a guitar amplifier: fit a causal dilated TCN to a dry/wet recording.

The "amp" here is a waveshaper between two filters; in the studio the wet
track comes from the interface. Loss: multi-resolution STFT plus ESR and DC.
"""

import time

import auraloss
import torch
import torch.nn as nn
import torch.nn.functional as F

SAMPLE_RATE = 44100
SEGMENT = 4096
BATCH = 4
STEPS = 40


class CausalBlock(nn.Module):
    def __init__(self, channels, kernel_size, dilation):
        super().__init__()
        self.pad = (kernel_size - 1) * dilation
        self.conv = nn.Conv1d(channels, 2 * channels, kernel_size, dilation=dilation)
        self.mix = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        y = self.conv(F.pad(x, (self.pad, 0)))
        a, b = y.chunk(2, dim=1)
        z = torch.tanh(a) * torch.sigmoid(b)
        return x + self.mix(z), z


class AmpTCN(nn.Module):
    def __init__(self, channels=8, kernel_size=3, dilations=(1, 2, 4, 8, 16, 32, 64)):
        super().__init__()
        self.inp = nn.Conv1d(1, channels, 1)
        self.blocks = nn.ModuleList(CausalBlock(channels, kernel_size, d) for d in dilations)
        self.out = nn.Conv1d(channels * len(dilations), 1, 1)

    def forward(self, x):
        h = self.inp(x)
        skips = []
        for block in self.blocks:
            h, z = block(h)
            skips.append(z)
        return self.out(torch.cat(skips, dim=1))


def plucked_strings(seconds, gen):
    """Decaying harmonic notes, good enough as a dry guitar."""
    n = int(seconds * SAMPLE_RATE)
    dry = torch.zeros(n)
    t = torch.arange(SAMPLE_RATE) / SAMPLE_RATE
    for onset in range(0, n - SAMPLE_RATE, SAMPLE_RATE // 4):
        f0 = 82.4 * 2 ** (torch.randint(0, 30, (1,), generator=gen).item() / 12)
        for h in range(1, 8):
            dry[onset : onset + SAMPLE_RATE] += (
                torch.sin(2 * torch.pi * f0 * h * t) * torch.exp(-3 * h * t) / h
            )
    return 0.5 * dry / dry.abs().max()


def reference_amp(dry):
    pre = torch.cat([dry[:1], dry[1:] - 0.85 * dry[:-1]])
    driven = torch.tanh(12 * pre + 0.2) - torch.tanh(torch.tensor(0.2))
    cab = torch.hann_window(33)
    return F.conv1d(driven.view(1, 1, -1), (cab / cab.sum()).view(1, 1, -1), padding=16).flatten()


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    dry = plucked_strings(12, gen)
    wet = reference_amp(dry)

    model = AmpTCN()
    mrstft = auraloss.freq.MultiResolutionSTFTLoss()
    esr = auraloss.time.ESRLoss()
    dc = auraloss.time.DCLoss()
    receptive = sum(b.pad for b in model.blocks)

    @torch.compile
    def compute_loss(x, y):
        pred = model(x)[..., receptive:]
        target = y[..., receptive:]
        return mrstft(pred, target) + esr(pred, target) + 0.1 * dc(pred, target)

    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)

    start = time.perf_counter()
    for step in range(STEPS):
        pos = torch.randint(0, dry.numel() - SEGMENT, (BATCH,), generator=gen)
        idx = pos[:, None] + torch.arange(SEGMENT)
        x, y = dry[idx].unsqueeze(1), wet[idx].unsqueeze(1)

        optimizer.zero_grad(set_to_none=True)
        loss = compute_loss(x, y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 10 == 0 or step == STEPS - 1:
            print(f"step {step:3d}  loss {loss.item():.4f}  {time.perf_counter() - start:6.1f} s")

    model.eval()
    with torch.no_grad():
        n = 2 * SAMPLE_RATE
        out = model(dry[:n].view(1, 1, -1)).flatten()
        err = ((out - wet[:n]) ** 2).sum() / (wet[:n] ** 2).sum()
    print(f"ESR on the first two seconds: {err:.4f}")


if __name__ == "__main__":
    main()
