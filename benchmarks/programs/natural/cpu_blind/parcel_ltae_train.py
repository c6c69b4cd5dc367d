"""Crop-type classification of field parcels from Sentinel-2 time series: pixel-set encoder + lightweight temporal
attention (L-TAE), trained on synthetic phenology curves.  Parcels have different numbers of cloud-free dates; a batch is
padded to its longest series and the mask is used in the attention.
"""

import math
import random

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(31)
random.seed(31)

BANDS, PIXELS, CLASSES = 10, 24, 9
BATCH = 32


def phenology(crop, doy):
    peak = 110 + 14 * crop
    width = 28 + 5 * (crop % 4)
    green = torch.exp(-0.5 * ((doy - peak) / width) ** 2)
    if crop % 3 == 0:  # a second crop or regrowth after harvest
        green = green + 0.45 * torch.exp(-0.5 * ((doy - peak - 95) / 22) ** 2)
    return green


def make_parcels(n):
    soil = torch.rand(BANDS) * 0.2 + 0.1
    leaf = torch.tensor([0.03, 0.06, 0.04, 0.12, 0.32, 0.40, 0.42, 0.44, 0.22, 0.11])
    parcels = []
    for _ in range(n):
        crop = random.randrange(CLASSES)
        n_dates = random.randint(18, 44)
        doy = torch.sort(torch.randperm(330)[:n_dates] + 15).values.float()
        shift = 9 * torch.randn(1)
        g = phenology(crop, doy - shift).clamp(0, 1)[:, None, None]
        n_px = random.randint(8, 90)
        vigour = 1 + 0.15 * torch.randn(1, n_px, 1)
        px = (soil * (1 - g) + leaf * g * vigour) + 0.03 * torch.randn(n_dates, n_px, BANDS)
        area = torch.tensor([math.log(n_px), random.random()])
        parcels.append((px, doy, area, crop))
    return parcels


def collate(items):
    longest = max(p[0].shape[0] for p in items)
    x = torch.zeros(len(items), longest, PIXELS, BANDS)
    pmask = torch.zeros(len(items), PIXELS)
    doy = torch.zeros(len(items), longest)
    pad = torch.ones(len(items), longest, dtype=torch.bool)
    for i, (px, d, _, _) in enumerate(items):
        pick = torch.randperm(px.shape[1])[:PIXELS]
        x[i, : len(d), : len(pick)] = px[:, pick]
        pmask[i, : len(pick)] = 1
        doy[i, : len(d)] = d
        pad[i, : len(d)] = False
    return x, pmask, doy, pad, torch.stack([p[2] for p in items]), torch.tensor([p[3] for p in items])


class PixelSetEncoder(nn.Module):
    def __init__(self, out=96):
        super().__init__()
        self.l1, self.b1 = nn.Linear(BANDS, 32), nn.BatchNorm1d(32)
        self.l2, self.b2 = nn.Linear(32, 64), nn.BatchNorm1d(64)
        self.l3, self.b3 = nn.Linear(128 + 2, out), nn.BatchNorm1d(out)

    def forward(self, x, pmask, extra):
        b, t, s, c = x.shape
        h = x.reshape(b * t * s, c)
        h = F.relu(self.b1(self.l1(h)))
        h = F.relu(self.b2(self.l2(h))).view(b, t, s, -1)
        m = pmask[:, None, :, None]
        n = m.sum(2)
        mean = (h * m).sum(2) / n
        var = ((h - mean.unsqueeze(2)) ** 2 * m).sum(2) / n
        pooled = torch.cat([mean, torch.sqrt(var + 1e-5), extra[:, None].expand(b, t, 2)], -1)
        return F.relu(self.b3(self.l3(pooled.view(b * t, -1)))).view(b, t, -1)


class LTAE(nn.Module):
    def __init__(self, dim=96, heads=8, d_k=8):
        super().__init__()
        self.heads, self.d_k = heads, d_k
        self.norm_in = nn.GroupNorm(heads, dim)
        self.query = nn.Parameter(torch.randn(heads, d_k) * math.sqrt(2 / d_k))
        self.key = nn.Linear(dim, heads * d_k)
        self.norm_out = nn.GroupNorm(heads, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.BatchNorm1d(dim), nn.ReLU(), nn.Dropout(0.2))

    def encode_days(self, doy, dim):
        freq = 1000.0 ** (-2 * torch.arange(dim // self.heads // 2, device=doy.device) / (dim // self.heads))
        ang = doy[..., None] * freq
        pe = torch.stack([ang.sin(), ang.cos()], -1).flatten(-2)
        return pe.repeat(1, 1, self.heads)

    def forward(self, x, doy, pad):
        b, t, d = x.shape
        x = self.norm_in(x.transpose(1, 2)).transpose(1, 2) + self.encode_days(doy, d)
        k = self.key(x).view(b, t, self.heads, self.d_k)
        score = torch.einsum("hk,bthk->bht", self.query, k) / math.sqrt(self.d_k)
        score = score.masked_fill(pad[:, None], -1e4)
        attn = F.dropout(score.softmax(-1), 0.1, self.training)
        v = x.view(b, t, self.heads, d // self.heads)
        out = torch.einsum("bht,bthd->bhd", attn, v).reshape(b, d)
        return self.norm_out(self.mlp(out)), attn


class ParcelNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.pse, self.tae = PixelSetEncoder(), LTAE()
        self.head = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, CLASSES))

    def forward(self, x, pmask, doy, pad, extra):
        emb, attn = self.tae(self.pse(x, pmask, extra), doy, pad)
        return self.head(emb), attn


def main():
    parcels = make_parcels(900)
    train, test = parcels[:800], parcels[800:]
    model = ParcelNet()
    net = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(4):
        model.train()
        random.shuffle(train)
        total, hits = 0.0, 0
        for i in range(0, len(train), BATCH):
            *inputs, y = collate(train[i : i + BATCH])
            logits, _ = net(*inputs)
            loss = F.cross_entropy(logits, y, label_smoothing=0.05)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.item()
            hits += (logits.argmax(1) == y).sum().item()
        print(f"epoch {epoch}: loss {total / (len(train) // BATCH):.4f} train acc {hits / len(train):.3f}")
    model.eval()
    with torch.no_grad():
        *inputs, y = collate(test)
        logits, attn = model(*inputs)
    days = (attn.mean(1) * inputs[2]).sum(1)
    print(
        f"test acc {(logits.argmax(1) == y).float().mean():.3f}  mean attended day of year {days.mean():.1f}"
    )


if __name__ == "__main__":
    main()
