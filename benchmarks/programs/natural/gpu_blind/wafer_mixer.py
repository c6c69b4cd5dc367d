"""MLP-Mixer for wafer-map defect patterns, trained with LAMB in large batches."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEVICE = "cpu" if SMOKE else "cuda"
BATCH = 16 if SMOKE else 512
STEPS = 4 if SMOKE else 140
DEPTH = 2 if SMOKE else 16
DIM = 32 if SMOKE else 256
PATCH, SIDE = 8, 64
N_CLASSES = 9


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.tok1 = nn.Linear(tokens, 2 * tokens)
        self.tok2 = nn.Linear(2 * tokens, tokens)
        self.norm2 = nn.LayerNorm(dim)
        self.ch1 = nn.Linear(dim, 4 * dim)
        self.ch2 = nn.Linear(4 * dim, dim)

    def forward(self, x):
        h = self.norm1(x).transpose(1, 2)
        x = x + self.tok2(F.gelu(self.tok1(h))).transpose(1, 2)
        return x + self.ch2(F.gelu(self.ch1(self.norm2(x))))


class WaferMixer(nn.Module):
    def __init__(self):
        super().__init__()
        tokens = (SIDE // PATCH) ** 2
        self.embed = nn.Conv2d(1, DIM, PATCH, PATCH)
        self.blocks = nn.Sequential(*[MixerBlock(tokens, DIM) for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, N_CLASSES)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = self.norm(self.blocks(x))
        return self.head(x.mean(1))


class Lamb(torch.optim.Optimizer):
    def __init__(self, params, lr=3e-3, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.02):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["t"] = 0
                    state["m"] = torch.zeros_like(p)
                    state["v"] = torch.zeros_like(p)
                state["t"] += 1
                t, m, v = state["t"], state["m"], state["v"]
                m.mul_(b1).add_(p.grad, alpha=1 - b1)
                v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                m_hat = m / (1 - b1**t)
                v_hat = v / (1 - b2**t)
                update = m_hat / (v_hat.sqrt() + group["eps"]) + group["weight_decay"] * p
                w_norm = p.norm().clamp(max=10.0)
                u_norm = update.norm()
                trust = torch.where((w_norm > 0) & (u_norm > 0), w_norm / u_norm, torch.ones_like(w_norm))
                p.sub_(update * trust * group["lr"])


def wafer_maps(n, g):
    """Binary die maps: random scratches, rings and edge clusters."""
    r = torch.linspace(-1, 1, SIDE, device=DEVICE)
    yy, xx = torch.meshgrid(r, r, indexing="ij")
    rad, ang = torch.sqrt(xx**2 + yy**2), torch.atan2(yy, xx)
    y = torch.randint(N_CLASSES, (n,), device=DEVICE, generator=g)
    ring = 0.1 + 0.1 * y.view(-1, 1, 1)
    lobes = (y % 4).view(-1, 1, 1)
    p = torch.exp(-(((rad - ring) / 0.1) ** 2)) * (0.6 + 0.4 * torch.cos(lobes * ang))
    fail = torch.rand(n, SIDE, SIDE, device=DEVICE, generator=g) < 0.05 + 0.6 * p
    return (fail & (rad <= 1)).float()[:, None], y


def main():
    torch.manual_seed(0)
    g = torch.Generator(device=DEVICE).manual_seed(21)
    x_all, y_all = wafer_maps(16 * BATCH, g)
    model = WaferMixer().to(DEVICE)
    opt = Lamb(model.parameters())
    net = torch.compile(model)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters")

    t0 = time.perf_counter()
    for step in range(STEPS):
        lo = (step % 16) * BATCH
        x, y = x_all[lo : lo + BATCH], y_all[lo : lo + BATCH]
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            logits = net(x)
        loss = F.cross_entropy(logits.float(), y)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if (step + 1) % max(1, STEPS // 7) == 0:
            acc = (logits.argmax(1) == y).float().mean().item()
            print(
                f"step {step + 1:4d}  loss {loss.item():.4f}  acc {acc:.3f}  {time.perf_counter() - t0:.2f} s"
            )


if __name__ == "__main__":
    main()
