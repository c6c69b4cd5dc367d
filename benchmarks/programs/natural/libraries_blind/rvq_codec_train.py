"""Train a small neural audio codec with a residual vector-quantised bottleneck."""

import math
import time

import torch
import torch.nn.functional as F
from torch import nn
from vector_quantize_pytorch import ResidualVQ

SAMPLE_RATE = 16_000
CLIP = 8_000
BATCH = 6
STEPS = 90


class ResUnit(nn.Module):
    def __init__(self, ch: int, dilation: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.ELU(),
            nn.Conv1d(ch, ch, 7, padding=3 * dilation, dilation=dilation),
            nn.ELU(),
            nn.Conv1d(ch, ch, 1),
        )

    def forward(self, x):
        return x + self.body(x)


def down(cin, cout, stride):
    return nn.Sequential(
        ResUnit(cin, 1),
        ResUnit(cin, 3),
        nn.ELU(),
        nn.Conv1d(cin, cout, 2 * stride, stride, padding=math.ceil(stride / 2)),
    )


def up(cin, cout, stride):
    return nn.Sequential(
        nn.ELU(),
        nn.ConvTranspose1d(
            cin, cout, 2 * stride, stride, padding=math.ceil(stride / 2), output_padding=stride % 2
        ),
        ResUnit(cout, 1),
        ResUnit(cout, 3),
    )


class Codec(nn.Module):
    def __init__(self, width: int = 16, latent: int = 64, num_quantizers: int = 6):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(1, width, 7, padding=3),
            down(width, 2 * width, 4),
            down(2 * width, 4 * width, 4),
            nn.ELU(),
            nn.Conv1d(4 * width, latent, 10, stride=5, padding=3),
        )
        self.quantizer = ResidualVQ(
            dim=latent,
            num_quantizers=num_quantizers,
            codebook_size=512,
            decay=0.95,
            kmeans_init=True,
            kmeans_iters=8,
            threshold_ema_dead_code=2,
            quantize_dropout=True,
            quantize_dropout_cutoff_index=1,
            commitment_weight=0.25,
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose1d(latent, 4 * width, 10, stride=5, padding=3, output_padding=1),
            up(4 * width, 2 * width, 4),
            up(2 * width, width, 4),
            nn.ELU(),
            nn.Conv1d(width, 1, 7, padding=3),
            nn.Tanh(),
        )

    def forward(self, wav):
        z = self.encoder(wav).transpose(1, 2)
        q, codes, commit = self.quantizer(z)
        recon = self.decoder(q.transpose(1, 2))
        return recon[..., : wav.shape[-1]], codes, commit.sum()


class SpectralLoss(nn.Module):
    def __init__(self, sizes=(256, 512, 1024)):
        super().__init__()
        self.sizes = sizes
        for n in sizes:
            self.register_buffer(f"win{n}", torch.hann_window(n))

    def forward(self, pred, target):
        total = 0.0
        for n in self.sizes:
            win = getattr(self, f"win{n}")
            a, b = (
                torch.stft(s.squeeze(1), n, n // 4, window=win, return_complex=True).abs() + 1e-5
                for s in (pred, target)
            )
            total = total + F.l1_loss(a, b) + F.l1_loss(a.log(), b.log())
        return total / len(self.sizes)


def synth_clips(batch: int, gen: torch.Generator) -> torch.Tensor:
    t = torch.arange(CLIP) / SAMPLE_RATE
    f0 = 90 + 240 * torch.rand(batch, 1, 1, generator=gen)
    vibrato = 1 + 0.02 * torch.sin(2 * math.pi * 5.5 * t)
    harmonics = torch.arange(1, 13).view(1, -1, 1)
    amps = torch.rand(batch, 12, 1, generator=gen) / harmonics
    voiced = (amps * torch.sin(2 * math.pi * f0 * harmonics * t * vibrato)).sum(1, keepdim=True)
    envelope = torch.sin(math.pi * t / t[-1]).clamp(min=0) ** 0.5
    noise = 0.02 * torch.randn(batch, 1, CLIP, generator=gen)
    return (0.4 * envelope * voiced + noise).clamp(-1, 1)


def main():
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(17)
    codec, spectral = Codec(), SpectralLoss()
    optimizer = torch.optim.AdamW(codec.parameters(), lr=6e-4, betas=(0.8, 0.99))
    codec_c = torch.compile(codec)

    started = time.perf_counter()
    for step in range(1, STEPS + 1):
        wav = synth_clips(BATCH, gen)
        recon, codes, commit = codec_c(wav)
        loss = spectral(recon, wav) + 5.0 * F.l1_loss(recon, wav) + commit
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(codec.parameters(), 1.0)
        optimizer.step()
        if step % 15 == 0:
            used = [codes[..., i][codes[..., i] >= 0].unique().numel() for i in range(2)]
            took = (time.perf_counter() - started) / 15
            print(
                f"step {step:3d}  loss {loss.item():.4f}  commit {commit.item():.4f}  "
                f"codes used {used}  {1e3 * took:.0f} ms/step"
            )
            started = time.perf_counter()


if __name__ == "__main__":
    main()
