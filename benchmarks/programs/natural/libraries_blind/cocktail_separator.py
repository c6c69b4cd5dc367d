"""Two-speaker separation with a learned analytic filterbank (asteroid-filterbanks), a TCN masker and PIT SI-SDR."""

import itertools
import time

import torch
import torch.nn as nn
from asteroid_filterbanks import make_enc_dec, transforms

RATE, SECONDS = 8000, 0.5


def voices(n, gen):
    """Harmonic voices: gliding pitch, vowel-like envelope, syllable gating."""
    t = torch.arange(int(RATE * SECONDS)) / RATE
    out = []
    for lo, hi in ((90, 140), (180, 260)):
        f0 = lo + (hi - lo) * torch.rand(n, 1, generator=gen)
        glide = 1 + 0.1 * torch.sin(2 * torch.pi * 2 * t + 6.28 * torch.rand(n, 1, generator=gen))
        phase = torch.cumsum(2 * torch.pi * f0 * glide / RATE, 1)
        formant = 500 + 1500 * torch.rand(n, 1, generator=gen)
        wave = sum(torch.exp(-(((k * f0 - formant) / 500) ** 2)) * torch.sin(k * phase) for k in range(1, 13))
        gate = torch.sigmoid(8 * torch.sin(2 * torch.pi * 4 * t + 6.28 * torch.rand(n, 1, generator=gen)))
        wave = wave * gate
        out.append(wave / (wave.std(1, keepdim=True) + 1e-4))
    return torch.stack(out, 1)


class TCNBlock(nn.Module):
    def __init__(self, chan, hidden, dilation):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(chan, hidden, 1),
            nn.PReLU(),
            nn.GroupNorm(1, hidden, eps=1e-6),
            nn.Conv1d(hidden, hidden, 3, padding=dilation, dilation=dilation, groups=hidden),
            nn.PReLU(),
            nn.GroupNorm(1, hidden, eps=1e-6),
        )
        self.res, self.skip = nn.Conv1d(hidden, chan, 1), nn.Conv1d(hidden, chan, 1)

    def forward(self, x):
        h = self.net(x)
        return x + self.res(h), self.skip(h)


class Separator(nn.Module):
    def __init__(self, n_filters=96, chan=40, hidden=80, blocks=5):
        super().__init__()
        self.enc, self.dec = make_enc_dec(
            "analytic_free", n_filters=n_filters, kernel_size=32, stride=16, sample_rate=RATE
        )
        self.bottleneck = nn.Sequential(nn.GroupNorm(1, n_filters // 2), nn.Conv1d(n_filters // 2, chan, 1))
        self.blocks = nn.ModuleList(TCNBlock(chan, hidden, 2**i) for i in range(blocks))
        self.mask = nn.Sequential(nn.PReLU(), nn.Conv1d(chan, n_filters, 1))

    def forward(self, mix):
        tf = self.enc(mix.unsqueeze(1))
        x = self.bottleneck(torch.log1p(transforms.mag(tf)))
        skips = 0
        for block in self.blocks:
            x, s = block(x)
            skips = skips + s
        masks = self.mask(skips).unflatten(1, (2, -1)).sigmoid()
        masked = transforms.apply_mag_mask(tf.unsqueeze(1), masks)
        return self.dec(masked, length=mix.shape[-1])


def si_sdr(est, ref):
    est = est - est.mean(-1, keepdim=True)
    ref = ref - ref.mean(-1, keepdim=True)
    proj = (est * ref).sum(-1, keepdim=True) / (ref.pow(2).sum(-1, keepdim=True) + 1e-8) * ref
    return 10 * torch.log10(proj.pow(2).sum(-1) / ((est - proj).pow(2).sum(-1) + 1e-8) + 1e-8)


def pit_loss(est, ref):
    table = [si_sdr(est[:, list(p)], ref).mean(1) for p in itertools.permutations(range(ref.shape[1]))]
    return -torch.stack(table).max(0).values.mean()


def main():
    torch.manual_seed(8)
    gen = torch.Generator().manual_seed(8)
    model = Separator()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)

    @torch.compile
    def loss_of(mix, ref):
        return pit_loss(model(mix), ref)

    infer = torch.compile(model)
    train, valid = voices(240, gen), voices(32, gen)
    for epoch in range(4):
        tic, total = time.perf_counter(), 0.0
        order = torch.randperm(len(train), generator=gen)
        for idx in order.split(12):
            ref = train[idx]
            # remix: the second speaker from another utterance, random levels
            ref = torch.stack([ref[:, 0], ref.roll(1, 0)[:, 1]], 1)
            ref = ref * (0.5 + torch.rand(len(idx), 2, 1, generator=gen))
            opt.zero_grad(set_to_none=True)
            loss = loss_of(ref.sum(1), ref)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            total += loss.item()
        with torch.no_grad():
            base = -pit_loss(valid.sum(1, keepdim=True).expand_as(valid), valid)
            gain = -pit_loss(infer(valid.sum(1)), valid) - base
        print(
            f"epoch {epoch}: train loss {total / 20:.3f} valid SI-SDR improvement {gain.item():.3f} dB "
            f"({240 / (time.perf_counter() - tic):.0f} mixtures/s)"
        )


if __name__ == "__main__":
    main()
