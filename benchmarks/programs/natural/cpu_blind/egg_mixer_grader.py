"""Train an MLP-Mixer that grades candled eggs (clean, blood spot, crack, dirty) from small images."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)

GRADES = ["clean", "blood", "crack", "dirty"]


def draw_eggs(n, size, gen):
    ys = torch.linspace(-1, 1, size)
    yy, xx = torch.meshgrid(ys, ys, indexing="ij")
    label = torch.randint(0, len(GRADES), (n,), generator=gen)
    rx = 0.55 + 0.1 * torch.rand(n, 1, 1, generator=gen)
    ry = 0.75 + 0.1 * torch.rand(n, 1, 1, generator=gen)
    shell = torch.sigmoid(12 * (1 - (xx / rx) ** 2 - (yy / ry) ** 2))
    tint = torch.rand(n, 3, 1, 1, generator=gen) * 0.2 + torch.tensor([0.8, 0.6, 0.4]).view(1, 3, 1, 1)
    img = shell[:, None] * tint
    cx = (torch.rand(n, 1, 1, generator=gen) - 0.5) * 0.6
    cy = (torch.rand(n, 1, 1, generator=gen) - 0.5) * 0.8
    r2 = (xx - cx) ** 2 + (yy - cy) ** 2
    spot = torch.exp(-r2 / 0.01) * (label == 1).float().view(-1, 1, 1)
    ang = torch.rand(n, 1, 1, generator=gen) * 3.14
    line = torch.exp(-((((xx - cx) * ang.cos() + (yy - cy) * ang.sin()) / 0.03) ** 2))
    crack = line * (r2 < 0.16).float() * (label == 2).float().view(-1, 1, 1)
    dirt = F.interpolate(torch.rand(n, 1, 8, 8, generator=gen), size=size, mode="bilinear")[:, 0]
    dirt = (dirt > 0.6).float() * (label == 3).float().view(-1, 1, 1)
    img[:, 1:] -= 0.5 * spot[:, None]
    img += 0.4 * crack[:, None]
    img -= 0.2 * dirt[:, None] * shell[:, None]
    img += 0.05 * torch.randn(img.shape, generator=gen)
    return img, label


class Mlp(nn.Module):
    def __init__(self, dim, hidden, drop):
        super().__init__()
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        return self.drop(self.down(F.gelu(self.up(x))))


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim, drop):
        super().__init__()
        self.norm_tok = nn.LayerNorm(dim)
        self.mix_tok = Mlp(tokens, tokens * 2, drop)
        self.norm_ch = nn.LayerNorm(dim)
        self.mix_ch = Mlp(dim, dim * 3, drop)

    def forward(self, x):
        x = x + self.mix_tok(self.norm_tok(x).transpose(1, 2)).transpose(1, 2)
        return x + self.mix_ch(self.norm_ch(x))


class EggMixer(nn.Module):
    def __init__(self, size=48, patch=6, dim=96, depth=3, drop=0.1):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, patch, stride=patch)
        tokens = (size // patch) ** 2
        self.blocks = nn.ModuleList(MixerBlock(tokens, dim, drop) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, len(GRADES))

    def forward(self, img):
        x = self.embed(img).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


def main():
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(11)
    images, grades = draw_eggs(1024, 48, gen)
    held, held_grades = draw_eggs(256, 48, gen)
    mean = images.mean((0, 2, 3), keepdim=True)
    std = images.std((0, 2, 3), keepdim=True)
    images, held = (images - mean) / std, (held - mean) / std

    net = EggMixer()
    net.compile()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.02)
    batch, epochs = 64, 4
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 3e-3, total_steps=epochs * (len(images) // batch))
    for epoch in range(epochs):
        net.train()
        start = time.time()
        total = 0.0
        for idx in torch.randperm(len(images), generator=gen).split(batch):
            logits = net(images[idx])
            loss = F.cross_entropy(logits, grades[idx], label_smoothing=0.05)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            sched.step()
            total += loss.item()
        net.eval()
        with torch.no_grad():
            hits = sum(
                (net(x).argmax(1) == y).sum().item()
                for x, y in zip(held.split(batch), held_grades.split(batch))
            )
        print(
            f"epoch {epoch}  loss {total / (len(images) // batch):.3f}  "
            f"held-out {hits / len(held):.3f}  {time.time() - start:.1f}s"
        )


if __name__ == "__main__":
    main()
