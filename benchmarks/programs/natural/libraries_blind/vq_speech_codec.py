"""Small neural audio codec: conv encoder, residual VQ with quantizer dropout, conv decoder."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from vector_quantize_pytorch import ResidualVQ


class ResUnit(nn.Module):
    def __init__(self, dim, dilation):
        super().__init__()
        self.net = nn.Sequential(
            nn.ELU(),
            nn.Conv1d(dim, dim, 7, padding=3 * dilation, dilation=dilation),
            nn.ELU(),
            nn.Conv1d(dim, dim, 1),
        )

    def forward(self, x):
        return x + self.net(x)


class Codec(nn.Module):
    def __init__(self, ch=16, dim=64, num_quantizers=8, codebook_size=256):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(1, ch, 7, padding=3),
            ResUnit(ch, 1),
            nn.ELU(),
            nn.Conv1d(ch, 2 * ch, 8, stride=4, padding=2),
            ResUnit(2 * ch, 3),
            nn.ELU(),
            nn.Conv1d(2 * ch, dim, 8, stride=4, padding=2),
        )
        self.rvq = ResidualVQ(
            dim=dim,
            codebook_size=codebook_size,
            num_quantizers=num_quantizers,
            kmeans_init=True,
            kmeans_iters=5,
            threshold_ema_dead_code=2,
            quantize_dropout=True,
            quantize_dropout_cutoff_index=1,
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose1d(dim, 2 * ch, 8, stride=4, padding=2),
            ResUnit(2 * ch, 3),
            nn.ELU(),
            nn.ConvTranspose1d(2 * ch, ch, 8, stride=4, padding=2),
            ResUnit(ch, 1),
            nn.ELU(),
            nn.Conv1d(ch, 1, 7, padding=3),
        )

    def forward(self, wav):
        z = self.encoder(wav).transpose(1, 2)
        quantized, indices, commit = self.rvq(z)
        out = self.decoder(quantized.transpose(1, 2))
        return out, indices, commit.sum()


def make_clips(n, length, generator):
    t = torch.arange(length) / 8000.0
    f0 = 100 + 300 * torch.rand(n, 1, generator=generator)
    vib = 1 + 0.02 * torch.sin(2 * torch.pi * 5 * t)[None]
    phase = 2 * torch.pi * f0 * vib * t[None]
    wav = sum(torch.sin(k * phase) / k for k in range(1, 5))
    env = torch.exp(-3 * t)[None] * torch.rand(n, 1, generator=generator)
    noise = 0.02 * torch.randn(n, length, generator=generator)
    return (0.5 * wav * env + noise).unsqueeze(1)


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    clips = make_clips(64, 4096, g)
    model = Codec()
    model.train()
    net = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def step(batch):
        recon, _, commit = net(batch)
        loss = F.l1_loss(recon, batch) + 0.05 * commit
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach()

    losses, times = [], []
    for i in range(70):
        idx = torch.randint(0, clips.shape[0], (4,), generator=g)
        t0 = time.perf_counter()
        losses.append(step(clips[idx]))
        if i >= 20:
            times.append(time.perf_counter() - t0)

    first, last = torch.stack(losses[:10]).mean(), torch.stack(losses[-10:]).mean()
    assert torch.isfinite(last) and last < first, (first, last)
    times.sort()
    print(f"loss {first:.4f} -> {last:.4f}")
    print(
        f"median {1e3 * times[len(times) // 2]:.2f} ms, mean {1e3 * sum(times) / len(times):.2f} ms per step"
    )


if __name__ == "__main__":
    main()
