"""Momentum-contrast pretraining on appliance current waveforms.

A small patch mixer encodes 6-channel current/voltage windows. Query and key
views come from random gain / phase-roll / channel masking augmentations; the
key encoder is an exponential moving average of the query encoder.
"""

import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class MoCoConfig:
    channels: int = 6
    window: int = 512
    patch: int = 8
    width: int = 48
    depth: int = 3
    proj: int = 64
    queue_size: int = 8192
    batch_size: int = 64
    momentum: float = 0.99
    temperature: float = 0.1
    steps: int = 44
    lr: float = 1e-3


class GatedBlock(nn.Module):
    def __init__(self, width, tokens):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.mix = nn.Linear(tokens, tokens)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(2 * width, width)
        self.gamma = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        h = self.norm1(x)
        h = self.mix(h.transpose(1, 2)).transpose(1, 2)
        x = x + torch.tanh(h) * torch.sigmoid(h + 1.0) * self.gamma
        a, b = self.up(self.norm2(x)).chunk(2, dim=-1)
        h = F.gelu(a) * F.softplus(b)
        return x + self.down(h) * self.gamma


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        tokens = cfg.window // cfg.patch
        self.patch = cfg.patch
        self.embed = nn.Linear(cfg.channels * cfg.patch, cfg.width)
        self.blocks = nn.ModuleList([GatedBlock(cfg.width, tokens) for _ in range(cfg.depth)])
        self.norm = nn.LayerNorm(cfg.width)
        self.head = nn.Sequential(nn.Linear(cfg.width, cfg.width), nn.GELU(), nn.Linear(cfg.width, cfg.proj))

    def forward(self, x):
        b, c, t = x.shape
        x = x.view(b, c, t // self.patch, self.patch).transpose(1, 2).reshape(b, t // self.patch, -1)
        x = self.embed(x)
        for blk in self.blocks:
            x = blk(x)
        return F.normalize(self.head(self.norm(x).mean(1)), dim=-1)


class MoCo(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.encoder_q = Encoder(cfg)
        self.encoder_k = Encoder(cfg)
        self.encoder_k.load_state_dict(self.encoder_q.state_dict())
        for p in self.encoder_k.parameters():
            p.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(cfg.proj, cfg.queue_size), dim=0))
        self.ptr = 0

    @torch.no_grad()
    def _update_key_encoder(self):
        m = self.cfg.momentum
        for pq, pk in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            pk.mul_(m).add_(pq, alpha=1 - m)

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys):
        n = keys.shape[0]
        self.queue[:, self.ptr : self.ptr + n] = keys.T
        self.ptr = (self.ptr + n) % self.cfg.queue_size

    def forward(self, view_q, view_k):
        q = self.encoder_q(view_q)
        with torch.no_grad():
            self._update_key_encoder()
            k = self.encoder_k(view_k)
        l_pos = (q * k).sum(-1, keepdim=True)
        l_neg = q @ self.queue.clone()
        logits = torch.cat([l_pos, l_neg], dim=1) / self.cfg.temperature
        loss = F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))
        self._dequeue_and_enqueue(k)
        return loss, logits.detach()


def make_waveforms(n, cfg, gen):
    t = torch.arange(cfg.window) / cfg.window
    kind = torch.randint(0, 8, (n, 1, 1), generator=gen)
    phase = torch.rand(n, cfg.channels, 1, generator=gen)
    base = torch.sin(6.2832 * (8 * t + phase))
    harm = 0.4 * torch.sin(6.2832 * (8 * (2 + kind) * t + phase))
    return base + harm + 0.05 * torch.randn(n, cfg.channels, cfg.window, generator=gen)


def augment(x, gen):
    gain = 0.8 + 0.4 * torch.rand(x.shape[0], x.shape[1], 1, generator=gen)
    shift = int(torch.randint(0, x.shape[-1], (1,), generator=gen))
    keep = (torch.rand(x.shape[0], x.shape[1], 1, generator=gen) > 0.1).float()
    return (x * gain * keep).roll(shift, dims=-1)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(2)
    cfg = MoCoConfig()
    gen = torch.Generator().manual_seed(1)
    data = make_waveforms(1024, cfg, gen)

    moco = MoCo(cfg)
    opt = torch.optim.AdamW(moco.encoder_q.parameters(), lr=cfg.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.steps)
    model = torch.compile(moco)

    t0 = time.perf_counter()
    for step in range(cfg.steps):
        idx = torch.randint(0, len(data), (cfg.batch_size,), generator=gen)
        x = data[idx]
        loss, logits = model(augment(x, gen), augment(x, gen))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(moco.encoder_q.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 10 == 9:
            acc = (logits.argmax(1) == 0).float().mean()
            dt = (time.perf_counter() - t0) / (step + 1)
            print(f"step {step + 1:3d} loss {loss.item():.4f} acc@1 {acc.item():.3f} {dt * 1e3:.1f} ms/step")


if __name__ == "__main__":
    main()
