"""Speaker embedding training: a small ECAPA-TDNN with additive-angular-margin softmax, bf16 autocast."""

import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cuda" if torch.cuda.is_available() else "cpu"
N_SPK = 20 if SMOKE else 1200
BATCH = 8 if SMOKE else 96
CH = 32 if SMOKE else 512
STEPS = 2 if SMOKE else 90
EPOCHS = 2 if SMOKE else 4


class SEBlock(nn.Module):
    def __init__(self, ch, bottleneck=128):
        super().__init__()
        self.down = nn.Linear(ch, bottleneck)
        self.up = nn.Linear(bottleneck, ch)

    def forward(self, x, mask):
        s = (x * mask).sum(-1) / mask.sum(-1)
        s = torch.sigmoid(self.up(F.relu(self.down(s))))
        return x * s.unsqueeze(-1)


class Res2Conv(nn.Module):
    def __init__(self, ch, dilation, scale=8):
        super().__init__()
        self.scale = scale
        w = ch // scale
        self.convs = nn.ModuleList(
            nn.Conv1d(w, w, 3, dilation=dilation, padding=dilation) for _ in range(scale - 1)
        )
        self.bns = nn.ModuleList(nn.BatchNorm1d(w) for _ in range(scale - 1))

    def forward(self, x):
        parts = x.chunk(self.scale, dim=1)
        out = [parts[0]]
        prev = None
        for i, (conv, bn) in enumerate(zip(self.convs, self.bns)):
            inp = parts[i + 1] if prev is None else parts[i + 1] + prev
            prev = bn(F.relu(conv(inp)))
            out.append(prev)
        return torch.cat(out, dim=1)


class Block(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.c1, self.b1 = nn.Conv1d(ch, ch, 1), nn.BatchNorm1d(ch)
        self.res2 = Res2Conv(ch, dilation)
        self.c2, self.b2 = nn.Conv1d(ch, ch, 1), nn.BatchNorm1d(ch)
        self.se = SEBlock(ch)

    def forward(self, x, mask):
        y = self.b1(F.relu(self.c1(x)))
        y = self.res2(y)
        y = self.b2(F.relu(self.c2(y)))
        return x + self.se(y, mask)


class Ecapa(nn.Module):
    def __init__(self, n_mels=80, ch=CH, emb=192):
        super().__init__()
        self.stem, self.stem_bn = nn.Conv1d(n_mels, ch, 5, padding=2), nn.BatchNorm1d(ch)
        self.blocks = nn.ModuleList(Block(ch, d) for d in (2, 3, 4))
        self.mfa = nn.Conv1d(3 * ch, 3 * ch, 1)
        self.att = nn.Sequential(
            nn.Conv1d(9 * ch, 128, 1), nn.ReLU(), nn.BatchNorm1d(128), nn.Tanh(), nn.Conv1d(128, 3 * ch, 1)
        )
        self.bn_pool = nn.BatchNorm1d(6 * ch)
        self.fc = nn.Linear(6 * ch, emb)

    def forward(self, mel, lengths):
        t = torch.arange(mel.shape[-1], device=mel.device)
        mask = (t[None, :] < lengths[:, None]).unsqueeze(1).float()
        x = mel - (mel * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)
        x = self.stem_bn(F.relu(self.stem(x)))
        feats = []
        for blk in self.blocks:
            x = blk(x, mask)
            feats.append(x)
        h = F.relu(self.mfa(torch.cat(feats, 1))).float()
        n = mask.sum(-1, keepdim=True)
        mu = (h * mask).sum(-1, keepdim=True) / n
        sd = (((h - mu) ** 2 * mask).sum(-1, keepdim=True) / n).clamp_min(1e-6).sqrt()
        a = self.att(torch.cat([h, mu.expand_as(h), sd.expand_as(h)], 1)).float()
        a = a.masked_fill(mask == 0, -1e4).softmax(-1)
        mean = (a * h).sum(-1)
        std = ((a * h * h).sum(-1) - mean**2).clamp_min(1e-6).sqrt()
        return self.fc(self.bn_pool(torch.cat([mean, std], 1)))


class AAMSoftmax(nn.Module):
    def __init__(self, emb, n, margin=0.2, scale=30.0):
        super().__init__()
        self.w = nn.Parameter(torch.randn(n, emb) * 0.05)
        self.cm, self.sm, self.scale = math.cos(margin), math.sin(margin), scale
        self.th, self.mm = math.cos(math.pi - margin), math.sin(math.pi - margin) * margin

    def forward(self, e, y):
        cos = F.linear(F.normalize(e.float()), F.normalize(self.w))
        sin = (1.0 - cos**2).clamp(1e-7, 1).sqrt()
        phi = cos * self.cm - sin * self.sm
        phi = torch.where(cos > self.th, phi, cos - self.mm)
        hot = F.one_hot(y, self.w.shape[0]).bool()
        logits = torch.where(hot, phi, cos) * self.scale
        return F.cross_entropy(logits, y), logits


class Voices:
    """Speakers are smooth spectral envelopes with a private modulation rate."""

    def __init__(self, gen):
        self.gen = gen
        self.env = torch.randn(N_SPK, 80, generator=gen, device=DEV).cumsum(1) * 0.2
        self.rate = torch.rand(N_SPK, 1, 1, generator=gen, device=DEV) * 0.4 + 0.05

    def batch(self, n, frames):
        y = torch.randint(N_SPK, (n,), generator=self.gen, device=DEV)
        t = torch.arange(frames, device=DEV).view(1, 1, -1)
        mel = self.env[y][..., None] * (1 + 0.5 * torch.sin(self.rate[y] * t))
        mel = mel + torch.randn(n, 80, frames, generator=self.gen, device=DEV)
        lens = torch.randint(frames * 2 // 3, frames + 1, (n,), generator=self.gen, device=DEV)
        return mel, lens, y


def equal_error(e, y):
    e = F.normalize(e.float())
    sim = e @ e.T
    iu = torch.triu_indices(len(y), len(y), 1, device=y.device)
    s, same = sim[iu[0], iu[1]], (y[iu[0]] == y[iu[1]])
    s, order = s.sort(descending=True)
    same = same[order].float()
    frr = 1 - same.cumsum(0) / same.sum()
    far = (1 - same).cumsum(0) / (1 - same).sum()
    i = (frr - far).abs().argmin()
    return ((frr[i] + far[i]) / 2).item()


def main():
    torch.manual_seed(5)
    gen = torch.Generator(device=DEV).manual_seed(11)
    data = Voices(gen)
    net, head = Ecapa().to(DEV), AAMSoftmax(192, N_SPK).to(DEV)
    opt = torch.optim.AdamW([*net.parameters(), *head.parameters()], lr=1e-3, weight_decay=1e-4)
    fast = torch.compile(net)
    lo, hi = (40, 60) if SMOKE else (200, 320)
    crop_rng = torch.Generator().manual_seed(3)
    for ep in range(EPOCHS):
        t0, tot, hit = time.time(), 0.0, 0.0
        net.train()
        for _ in range(STEPS):
            # a fresh crop length per batch
            frames = int(torch.randint(lo, hi + 1, (1,), generator=crop_rng))
            mel, lens, y = data.batch(BATCH, frames)
            with torch.autocast(DEV, dtype=torch.bfloat16):
                emb = fast(mel, lens)
            loss, logits = head(emb, y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            opt.step()
            tot += loss.item()
            hit += (logits.argmax(1) == y).float().mean().item()
        net.eval()
        with torch.no_grad(), torch.autocast(DEV, dtype=torch.bfloat16):
            es, ys = [], []
            for _ in range(4):
                mel, lens, y = data.batch(BATCH, hi)
                es.append(fast(mel, lens))
                ys.append(y)
        print(
            f"epoch {ep} loss {tot / STEPS:.4f} acc {hit / STEPS:.3f} "
            f"eer {equal_error(torch.cat(es), torch.cat(ys)):.4f} [{time.time() - t0:.1f}s]"
        )


if __name__ == "__main__":
    main()
