"""MaskGIT sampler: class-conditional generation of wallpaper patterns as a 16x16 grid of VQ codes,
parallel decoding in 12 rounds with classifier-free guidance, then a small convolutional VQ decoder."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

device = "cuda"
torch.manual_seed(21)
torch.backends.cuda.matmul.allow_tf32 = True

GRID = 16
CODES = 2048
MASK = CODES
N_STYLES = 40
DIM = 1024
HEADS = 16
DEPTH = 12
BATCH = 48
ROUNDS = 12
N_BATCHES = 14


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(a.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.norm2(x))


class TokenTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(CODES + 1, DIM)
        self.style = nn.Embedding(N_STYLES + 1, DIM)  # the last is "no style"
        self.pos = nn.Parameter(torch.randn(1, GRID * GRID + 1, DIM) * 0.02)
        self.blocks = nn.ModuleList(Block(DIM, HEADS) for _ in range(DEPTH))
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Sequential(nn.Linear(DIM, DIM), nn.GELU(), nn.LayerNorm(DIM))
        self.bias = nn.Parameter(torch.zeros(CODES))
        nn.init.normal_(self.tok.weight, std=0.02)

    def forward(self, tokens, style):
        x = torch.cat([self.style(style)[:, None], self.tok(tokens)], dim=1) + self.pos
        for blk in self.blocks:
            x = blk(x)
        x = self.head(self.norm(x[:, 1:]))
        return x @ self.tok.weight[:CODES].t() + self.bias


class VQDecoder(nn.Module):
    def __init__(self, ch=256):
        super().__init__()
        self.codebook = nn.Embedding(CODES, ch)
        layers = []
        for c_in, c_out in ((ch, 256), (256, 128), (128, 128), (128, 64)):
            layers += [
                nn.GroupNorm(16, c_in),
                nn.SiLU(),
                nn.Conv2d(c_in, c_in, 3, padding=1),
                nn.Upsample(scale_factor=2, mode="nearest"),
                nn.Conv2d(c_in, c_out, 3, padding=1),
            ]
        layers += [nn.GroupNorm(16, 64), nn.SiLU(), nn.Conv2d(64, 3, 3, padding=1), nn.Tanh()]
        self.net = nn.Sequential(*layers)

    def forward(self, tokens):
        z = self.codebook(tokens).view(-1, GRID, GRID, self.codebook.embedding_dim).permute(0, 3, 1, 2)
        return self.net(z)


class MaskGitSampler:
    def __init__(self, model, rounds=ROUNDS, guidance=3.0, choice_temp=4.5):
        self.model = model
        self.rounds = rounds
        self.guidance = guidance
        self.choice_temp = choice_temp

    @torch.compile
    def decode_round(self, tokens, style, i):
        b, n = tokens.shape
        progress = (i + 1) / self.rounds
        null = torch.full_like(style, N_STYLES)
        logits = self.model(torch.cat([tokens, tokens]), torch.cat([style, null]))
        cond, uncond = logits.float().chunk(2)
        scale = self.guidance * progress
        logits = uncond + (1 + scale) * (cond - uncond)

        probs = torch.softmax(logits, dim=-1)
        sampled = torch.multinomial(probs.view(b * n, -1), 1).view(b, n)
        known = tokens != MASK
        sampled = torch.where(known, tokens, sampled)
        conf = probs.gather(2, sampled[..., None])[..., 0].log()
        u = torch.rand_like(conf).clamp_(1e-6, 1 - 1e-6)
        conf = conf - self.choice_temp * (1 - progress) * torch.log(-torch.log(u))
        conf = conf.masked_fill(known, float("inf"))

        n_mask = int(n * math.cos(progress * math.pi / 2))
        if n_mask == 0:
            return sampled
        cut = torch.sort(conf, dim=1).values[:, n_mask - 1 : n_mask]
        return torch.where(conf <= cut, torch.full_like(sampled, MASK), sampled)

    @torch.no_grad()
    def __call__(self, style):
        tokens = torch.full((style.shape[0], GRID * GRID), MASK, device=style.device, dtype=torch.long)
        for i in range(self.rounds):
            tokens = self.decode_round(tokens, style, i)
        return tokens


def main():
    model = TokenTransformer().to(device, torch.bfloat16).eval()
    decoder = VQDecoder().to(device, torch.bfloat16).to(memory_format=torch.channels_last).eval()
    sampler = MaskGitSampler(model)
    decode = torch.compile(decoder)

    styles = torch.arange(N_BATCHES * BATCH, device=device) % N_STYLES
    usage = torch.zeros(CODES, device=device)
    brightness = []
    for k in range(N_BATCHES):
        tokens = sampler(styles[k * BATCH : (k + 1) * BATCH])
        assert not (tokens == MASK).any()
        usage += torch.bincount(tokens.view(-1), minlength=CODES)
        with torch.no_grad():
            images = decode(tokens)
        brightness.append(images.float().mean().item())
    p = usage / usage.sum()
    entropy = -(p * (p + 1e-12).log()).sum()
    print(
        f"{len(styles)} patterns of {images.shape[-1]} px; codes used {(usage > 0).sum().item()}/{CODES}, "
        f"perplexity {entropy.exp().item():.0f}"
    )
    print("mean brightness per batch", " ".join(f"{v:+.3f}" for v in brightness))


if __name__ == "__main__":
    main()
