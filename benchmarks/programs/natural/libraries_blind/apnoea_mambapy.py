"""Second-by-second apnoea scoring of a night's nasal flow and SpO2 with a small Mamba (mambapy)."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from mambapy.mamba import Mamba, MambaConfig

torch.manual_seed(23)
torch.set_num_threads(2)

SECONDS = 256  # one training crop
FS = 4  # flow samples a second
CHANNELS = 2 * FS  # flow and effort belt, folded into a second's vector
BATCH = 6
STEPS = 40


def synth_nights(n, seconds, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(seconds * FS) / FS
    rate = 0.22 + 0.06 * torch.rand(n, 1, generator=g)
    breath = torch.sin(2 * torch.pi * rate * t + 6.28 * torch.rand(n, 1, generator=g))
    events = torch.zeros(n, seconds)
    for i in range(n):
        at = int(torch.randint(10, 40, (1,), generator=g))
        while at < seconds - 15:
            length = int(torch.randint(10, 32, (1,), generator=g))
            events[i, at : at + length] = 1
            at += length + int(torch.randint(18, 70, (1,), generator=g))
    amp = 1 - 0.9 * events.repeat_interleave(FS, dim=1)
    kernel = torch.hann_window(9).view(1, 1, -1) / 4
    amp = F.conv1d(amp.unsqueeze(1), kernel, padding=4).squeeze(1)
    flow = breath * amp + 0.15 * torch.randn(n, seconds * FS, generator=g)
    belt = breath * (0.5 + 0.5 * amp) + 0.1 * torch.randn(n, seconds * FS, generator=g)
    spo2 = torch.full((n, seconds), 96.0)
    for s in range(1, seconds):
        delayed = events[:, max(0, s - 20)]
        spo2[:, s] = spo2[:, s - 1] + 0.05 * (96 - spo2[:, s - 1]) - 0.35 * delayed
    x = torch.cat(
        [flow.view(n, seconds, FS), belt.view(n, seconds, FS), (spo2.unsqueeze(-1) - 94) / 3], dim=-1
    )
    return x, events


class ApnoeaScorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(CHANNELS + 1, 40)
        self.backbone = Mamba(MambaConfig(d_model=40, n_layers=3, d_state=8))
        self.norm = nn.LayerNorm(40)
        self.out = nn.Linear(40, 1)

    def forward(self, x):
        h = self.backbone(self.inp(x))
        return self.out(self.norm(h)).squeeze(-1)


def event_index(prob):
    """events an hour: runs of at least 10 scored seconds"""
    on = (prob > 0.5).float()
    runs = F.avg_pool1d(on.unsqueeze(1), 10, stride=1).squeeze(1) > 0.99
    starts = (runs[:, 1:] & ~runs[:, :-1]).sum(1)
    return starts.float() * 3600 / prob.shape[1]


def main():
    x, y = synth_nights(240, SECONDS, seed=1)
    xv, yv = synth_nights(18, SECONDS, seed=2)
    model = ApnoeaScorer()
    print("parameters", sum(p.numel() for p in model.parameters()))
    model.compile()
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    pos_weight = torch.tensor(1.6)

    t0 = time.time()
    for step in range(STEPS):
        idx = torch.randint(0, len(x), (BATCH,))
        logits = model(x[idx])
        loss = F.binary_cross_entropy_with_logits(logits, y[idx], pos_weight=pos_weight)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 10 == 9:
            print(f"step {step + 1}: {loss.item():.4f}")
    print(f"trained in {time.time() - t0:.1f} s")

    model.eval()
    with torch.no_grad():
        prob = torch.cat([model(c) for c in xv.split(BATCH)]).sigmoid()
    acc = ((prob > 0.5).float() == yv).float().mean()
    print(f"accuracy {acc:.3f}; AHI true {event_index(yv).mean():.1f} scored {event_index(prob).mean():.1f}")


if __name__ == "__main__":
    main()
