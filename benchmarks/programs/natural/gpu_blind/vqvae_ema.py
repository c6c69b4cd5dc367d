"""VQ-VAE with EMA codebook updates and dead code restarts."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

SMALL = SCALE < 0.5
IMG = 128 if not SMALL else 32
BATCH = max(4, int(64 * SCALE))
HIDDEN = max(16, int(128 * SCALE))
CODES = max(64, int(1024 * SCALE))
CODE_DIM = 64 if not SMALL else 16
STEPS = 60 if not SMALL else 15


class ResBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.body = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(ch, ch // 2, 3, padding=1),
            nn.BatchNorm2d(ch // 2),
            nn.ReLU(),
            nn.Conv2d(ch // 2, ch, 1),
            nn.BatchNorm2d(ch),
        )

    def forward(self, x):
        return x + self.body(x)


class VectorQuantizerEMA(nn.Module):
    def __init__(self, n_codes, dim, decay=0.99, eps=1e-5, restart_below=0.05):
        super().__init__()
        self.n_codes, self.dim, self.decay, self.eps = n_codes, dim, decay, eps
        self.restart_below = restart_below
        codebook = torch.randn(n_codes, dim)
        self.register_buffer("codebook", codebook)
        self.register_buffer("cluster_size", torch.ones(n_codes))
        self.register_buffer("embed_avg", codebook.clone())

    @torch.no_grad()
    def update(self, flat, onehot):
        counts = onehot.sum(0)
        sums = onehot.t() @ flat
        self.cluster_size.mul_(self.decay).add_(counts, alpha=1 - self.decay)
        self.embed_avg.mul_(self.decay).add_(sums, alpha=1 - self.decay)
        n = self.cluster_size.sum()
        smoothed = (self.cluster_size + self.eps) / (n + self.n_codes * self.eps) * n
        self.codebook.copy_(self.embed_avg / smoothed.unsqueeze(1))
        dead = self.cluster_size < self.restart_below
        if dead.any():
            n_dead = int(dead.sum())
            pick = torch.randint(0, flat.shape[0], (n_dead,), device=flat.device)
            self.codebook[dead] = flat[pick]
            self.embed_avg[dead] = flat[pick]
            self.cluster_size[dead] = 1.0

    def forward(self, z):
        b, c, h, w = z.shape
        flat = z.permute(0, 2, 3, 1).reshape(-1, c).float()
        dist = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codebook.t() + self.codebook.pow(2).sum(1)
        idx = dist.argmin(1)
        onehot = F.one_hot(idx, self.n_codes).float()
        quant = (onehot @ self.codebook).view(b, h, w, c).permute(0, 3, 1, 2).contiguous()
        if self.training:
            self.update(flat.detach(), onehot)
        commit = F.mse_loss(z.float(), quant.detach())
        quant = z + (quant - z).detach()
        probs = onehot.mean(0)
        perplexity = torch.exp(-(probs * torch.log(probs + 1e-10)).sum())
        return quant, commit, perplexity, idx.view(b, h, w)


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, HIDDEN // 2, 4, 2, 1),
            nn.ReLU(),
            nn.Conv2d(HIDDEN // 2, HIDDEN, 4, 2, 1),
            nn.ReLU(),
            nn.Conv2d(HIDDEN, HIDDEN, 3, padding=1),
            ResBlock(HIDDEN),
            ResBlock(HIDDEN),
            nn.ReLU(),
            nn.Conv2d(HIDDEN, CODE_DIM, 1),
        )
        self.vq = VectorQuantizerEMA(CODES, CODE_DIM)
        self.decoder = nn.Sequential(
            nn.Conv2d(CODE_DIM, HIDDEN, 3, padding=1),
            ResBlock(HIDDEN),
            ResBlock(HIDDEN),
            nn.ReLU(),
            nn.ConvTranspose2d(HIDDEN, HIDDEN // 2, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(HIDDEN // 2, 3, 4, 2, 1),
        )

    def forward(self, x):
        z = self.encoder(x)
        quant, commit, perplexity, idx = self.vq(z)
        recon = self.decoder(quant)
        recon_loss = F.mse_loss(recon, x)
        return {
            "loss": recon_loss + 0.25 * commit,
            "recon": recon_loss,
            "commit": commit,
            "perplexity": perplexity,
            "idx": idx,
        }


def synthetic_images(n):
    xs = torch.linspace(-1, 1, IMG)
    yy, xx = torch.meshgrid(xs, xs, indexing="ij")
    centre = torch.rand(n, 2, 1, 1) * 1.6 - 0.8
    freq = torch.rand(n, 3, 1, 1) * 12 + 2
    r = ((xx - centre[:, :1]) ** 2 + (yy - centre[:, 1:]) ** 2).sqrt()
    return torch.cos(r * freq) * torch.exp(-r)


def main():
    torch.manual_seed(0)
    model = VQVAE().to(DEVICE)
    compiled = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=3e-4)
    data = synthetic_images(8 * BATCH)
    val = synthetic_images(BATCH).to(DEVICE)
    for step in range(1, STEPS + 1):
        model.train()
        x = data[torch.randperm(len(data))[:BATCH]].to(DEVICE, non_blocking=True)
        opt.zero_grad(set_to_none=True)
        out = compiled(x)
        out["loss"].backward()
        opt.step()
        if step % 5 == 0:
            print(
                f"step {step:3d} recon {out['recon'].item():.4f} commit {out['commit'].item():.4f} "
                f"ppl {out['perplexity'].item():.1f}"
            )
        if step % 20 == 0 or step == STEPS:
            model.eval()
            with torch.no_grad():
                v = compiled(val)
            print(f"    val recon {v['recon'].item():.4f} codes used {v['idx'].unique().numel()}")


if __name__ == "__main__":
    main()
