"""Transducer (RNN-T) speech recogniser: attention encoder, stateless predictor, additive joiner."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1"))

torch.set_float32_matmul_precision("high")

BLANK = 0


class EncoderBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.ln2 = nn.LayerNorm(dim)
        self.conv = nn.Conv1d(dim, dim, 15, padding=7, groups=dim)
        self.ln3 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        x = x + F.silu(self.conv(self.ln2(x).transpose(1, 2))).transpose(1, 2)
        return x + self.ff(self.ln3(x))


class Encoder(nn.Module):
    def __init__(self, mels, dim, depth, heads=8):
        super().__init__()
        self.sub = nn.Sequential(
            nn.Conv1d(mels, dim, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv1d(dim, dim, 3, stride=2, padding=1),
            nn.SiLU(),
        )
        self.blocks = nn.ModuleList(EncoderBlock(dim, heads) for _ in range(depth))

    def forward(self, feats):
        x = self.sub(feats.transpose(1, 2)).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return x


class Transducer(nn.Module):
    def __init__(self, mels=80, dim=512, joint=512, vocab=500, depth=6):
        super().__init__()
        self.encoder = Encoder(mels, dim, depth)
        self.embed = nn.Embedding(vocab, dim)
        self.context = nn.Conv1d(dim, dim, 2, groups=dim // 4)
        self.enc_proj = nn.Linear(dim, joint)
        self.pred_proj = nn.Linear(dim, joint)
        self.out = nn.Linear(joint, vocab)

    def forward(self, feats, targets):
        enc = self.enc_proj(self.encoder(feats))
        sos = torch.full_like(targets[:, :1], BLANK)
        emb = self.embed(torch.cat([sos, targets], 1)).transpose(1, 2)
        pred = F.relu(self.context(F.pad(emb, (1, 0)))).transpose(1, 2)
        pred = self.pred_proj(pred)
        logits = self.out(torch.tanh(enc[:, :, None] + pred[:, None]))
        logp = F.log_softmax(logits.float(), -1)
        blank = logp[..., BLANK]
        index = targets[:, None, :, None].expand(-1, logp.size(1), -1, -1)
        label = logp[:, :, :-1].gather(-1, index).squeeze(-1)
        return blank, label


def skew(x, width):
    b, t, u = x.shape
    diag = torch.arange(width, device=x.device)[:, None] - torch.arange(u, device=x.device)
    valid = (diag >= 0) & (diag < t)
    cols = torch.arange(u, device=x.device).expand(width, u)
    out = x[:, diag.clamp(0, t - 1), cols]
    return out.masked_fill(~valid, -1e30).transpose(0, 1)


def transducer_loss(blank, label, feat_lens, target_lens):
    b, t, u1 = blank.shape
    steps = t + u1 - 1
    blank_d = skew(blank, steps)
    label_d = skew(label, steps)
    alpha = torch.full((b, u1), -1e30, device=blank.device)
    alpha[:, 0] = 0.0
    alphas = [alpha]
    for d in range(1, steps):
        stay = alpha + blank_d[d - 1]
        move = F.pad(alpha[:, :-1] + label_d[d - 1], (1, 0), value=-1e30)
        alpha = torch.logaddexp(stay, move)
        alphas.append(alpha)
    alphas = torch.stack(alphas, 1)
    rows = torch.arange(b, device=blank.device)
    last = feat_lens - 1 + target_lens
    final = alphas[rows, last, target_lens] + blank[rows, feat_lens - 1, target_lens]
    return -final.mean() / t


def make_batch(batch, frames, mels, labels, vocab):
    feats = torch.randn(batch, frames, mels, device=DEVICE)
    targets = torch.randint(1, vocab, (batch, labels), device=DEVICE)
    t = frames // 4
    feat_lens = torch.randint(3 * t // 4, t + 1, (batch,), device=DEVICE)
    target_lens = torch.randint(labels // 2, labels + 1, (batch,), device=DEVICE)
    return feats, targets, feat_lens, target_lens


def main():
    torch.manual_seed(0)
    small = SCALE < 1
    batch, frames, labels, vocab = (2, 80, 8, 50) if small else (16, 800, 40, 500)
    warmup, iters = (1, 3) if small else (5, 30)

    model = Transducer(vocab=vocab, dim=64 if small else 512, joint=64 if small else 512).to(DEVICE)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    compiled = torch.compile(model)
    batches = [make_batch(batch, frames, 80, labels, vocab) for _ in range(4)]

    def train_step(i):
        feats, targets, feat_lens, target_lens = batches[i % len(batches)]
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            blank, label = compiled(feats, targets)
        loss = transducer_loss(blank, label, feat_lens, target_lens)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        return loss.detach()

    for i in range(warmup):
        train_step(i)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for i in range(iters):
        loss = train_step(i)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start
    print(f"loss {loss.item():.4f}  {1000 * elapsed / iters:.2f} ms/step")


if __name__ == "__main__":
    main()
