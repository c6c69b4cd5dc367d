"""Adversarially trains a reduced HiFi-GAN vocoder with a multi-period discriminator, feature matching and a mel reconstruction loss."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchaudio
from torch.nn.utils.parametrizations import weight_norm


class ResBlock(nn.Module):
    def __init__(self, ch, k, dils=(1, 3)):
        super().__init__()
        self.convs = nn.ModuleList(
            weight_norm(nn.Conv1d(ch, ch, k, dilation=d, padding=d * (k - 1) // 2)) for d in dils
        )

    def forward(self, x):
        for c in self.convs:
            x = x + c(F.leaky_relu(x, 0.1))
        return x


class Generator(nn.Module):
    def __init__(self, n_mels=80, ch=256, rates=(8, 8, 4), kernels=(3, 7)):
        super().__init__()
        self.pre = weight_norm(nn.Conv1d(n_mels, ch, 7, padding=3))
        self.ups, self.res = nn.ModuleList(), nn.ModuleList()
        for r in rates:
            self.ups.append(weight_norm(nn.ConvTranspose1d(ch, ch // 2, 2 * r, r, padding=r // 2)))
            ch //= 2
            self.res.append(nn.ModuleList(ResBlock(ch, k) for k in kernels))
        self.post = weight_norm(nn.Conv1d(ch, 1, 7, padding=3))

    def forward(self, mel):
        x = self.pre(mel)
        for up, blocks in zip(self.ups, self.res):
            x = up(F.leaky_relu(x, 0.1))
            x = sum(b(x) for b in blocks) / len(blocks)
        return torch.tanh(self.post(F.leaky_relu(x)))


class PeriodDisc(nn.Module):
    def __init__(self, period, chans=(1, 32, 128, 256)):
        super().__init__()
        self.period = period
        self.convs = nn.ModuleList(
            weight_norm(nn.Conv2d(i, o, (5, 1), (3, 1), padding=(2, 0)))
            for i, o in zip(chans[:-1], chans[1:])
        )
        self.post = weight_norm(nn.Conv2d(chans[-1], 1, (3, 1), padding=(1, 0)))

    def forward(self, x):
        b, c, t = x.shape
        if t % self.period:
            x = F.pad(x, (0, self.period - t % self.period), mode="reflect")
        x = x.view(b, c, -1, self.period)
        feats = []
        for conv in self.convs:
            x = F.leaky_relu(conv(x), 0.1)
            feats.append(x)
        return self.post(x), feats


class MPD(nn.Module):
    def __init__(self):
        super().__init__()
        self.discs = nn.ModuleList(PeriodDisc(p) for p in (2, 3, 5))

    def forward(self, x):
        return [d(x) for d in self.discs]


def main():
    torch.manual_seed(9)
    torch.backends.cudnn.allow_tf32 = True
    gen_net, disc_net = Generator().cuda(), MPD().cuda()
    G, D = torch.compile(gen_net), torch.compile(disc_net)
    mel_fn = torchaudio.transforms.MelSpectrogram(
        22050, n_fft=1024, hop_length=256, n_mels=80, power=1.0
    ).cuda()
    logmel = lambda w: torch.log(mel_fn(w.squeeze(1)).clamp(min=1e-5))[..., :-1]
    og = torch.optim.AdamW(gen_net.parameters(), 2e-4, betas=(0.8, 0.99))
    od = torch.optim.AdamW(disc_net.parameters(), 2e-4, betas=(0.8, 0.99))
    t = torch.arange(8192, device="cuda") / 22050
    for step in range(16):
        f0 = torch.empty(16, 1, 1, device="cuda").uniform_(80, 400)
        wav = 0.15 * sum(torch.sin(2 * math.pi * f0 * k * t + k) for k in (1, 2, 3, 5))
        mel = logmel(wav)
        fake = G(mel)
        d_loss = sum(((1 - r[0]) ** 2).mean() + (f[0] ** 2).mean() for r, f in zip(D(wav), D(fake.detach())))
        od.zero_grad()
        d_loss.backward()
        od.step()
        real, made = D(wav), D(fake)
        mel_loss = F.l1_loss(logmel(fake), mel)
        fm = sum(F.l1_loss(b, a.detach()) for r, f in zip(real, made) for a, b in zip(r[1], f[1]))
        g_loss = sum(((1 - f[0]) ** 2).mean() for f in made) + 2 * fm + 45 * mel_loss
        og.zero_grad()
        g_loss.backward()
        og.step()
    print("disc %.4f gen %.4f mel %.4f" % (d_loss.item(), g_loss.item(), mel_loss.item()))


if __name__ == "__main__":
    main()
