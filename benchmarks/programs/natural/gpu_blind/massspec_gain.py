"""Fit a per-bin gain so that high-resolution mass spectra of replicates agree."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

SPECTRA = 6
BINS = int(3_000_000 * SCALE)


class GainModel(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.norm = nn.LayerNorm(bins)
        self.log_gain = nn.Parameter(torch.zeros(bins))
        self.temperature = nn.Parameter(torch.tensor(0.0))

    def forward(self, spectra):
        x = torch.log1p(spectra) * torch.exp(self.log_gain)
        return self.norm(x) * torch.exp(-self.temperature)


def replicate_loss(model, spectra, reference):
    z = model(spectra)
    logp = F.log_softmax(z, dim=-1)
    target = F.softmax(reference, dim=-1)
    kl = (target * (torch.log(target + 1e-12) - logp)).sum(-1)

    # spectral angle to the mean of the replicates
    mean = z.mean(0, keepdim=True)
    cos = F.cosine_similarity(z, mean, dim=-1)

    # smooth gain along the mass axis
    rough = (model.log_gain[1:] - model.log_gain[:-1]).square().sum()
    total = z.square().sum() / z.numel()
    return kl.mean() + (1 - cos).mean() + 1e-4 * rough + 1e-3 * total


loss_fn = torch.compile(replicate_loss)


def make_spectra():
    axis = torch.arange(BINS, device=device)
    base = torch.rand(BINS, device=device) ** 12 * 500
    base = base * (1 + torch.cos(axis / 997.0))
    drift = 1 + 0.3 * torch.sin(axis / BINS * 9)
    noisy = base * drift * (1 + 0.1 * torch.randn(SPECTRA, BINS, device=device))
    return noisy.clamp(min=0), torch.log1p(base)


def sync():
    if device == "cuda":
        torch.cuda.synchronize()


def main():
    torch.manual_seed(4)
    spectra, reference = make_spectra()
    model = GainModel(BINS).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)

    def step():
        opt.zero_grad()
        loss = loss_fn(model, spectra, reference)
        loss.backward()
        opt.step()
        return loss.detach()

    for _ in range(4):
        step()
    sync()
    steps = 60
    t0 = time.perf_counter()
    losses = [step() for _ in range(steps)]
    sync()
    dt = (time.perf_counter() - t0) / steps
    print(f"loss {losses[0].item():.5f} -> {losses[-1].item():.5f}, T {model.temperature.item():.4f}")
    print(f"{dt * 1e3:.3f} ms per step")


if __name__ == "__main__":
    main()
