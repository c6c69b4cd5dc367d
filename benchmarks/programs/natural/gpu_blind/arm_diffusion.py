"""Behaviour cloning with a diffusion policy for a seven-joint arm.

The network predicts the noise that was mixed into a chunk of 16 future joint
commands, given the joint state, the goal and the diffusion time.  It is a
residual stack of gated MLP blocks with adaptive scale from the conditioning.
"""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = "cuda"
JOINTS, CHUNK = 7, 16


class GatedBlock(nn.Module):
    def __init__(self, dim, hidden, cond):
        super().__init__()
        self.scale = nn.Linear(cond, dim)
        self.gain = nn.Parameter(torch.ones(dim))
        self.up = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        nn.init.zeros_(self.scale.weight)
        nn.init.zeros_(self.scale.bias)

    def forward(self, x, c):
        h = F.rms_norm(x, (x.shape[-1],), self.gain) * (1 + self.scale(c))
        a, b = self.up(h).chunk(2, dim=-1)
        return x + self.down(F.silu(a) * b)


class DiffusionPolicy(nn.Module):
    def __init__(self, dim=1024, hidden=2560, cond=256, depth=4):
        super().__init__()
        self.freq = nn.Buffer(torch.exp(torch.linspace(0.0, 6.0, 32)))
        self.cond = nn.Sequential(
            nn.Linear(2 * JOINTS + 3 + 64, cond), nn.SiLU(), nn.Linear(cond, cond), nn.SiLU()
        )
        self.inp = nn.Linear(JOINTS * CHUNK, dim)
        self.blocks = nn.ModuleList(GatedBlock(dim, hidden, cond) for _ in range(depth))
        self.out = nn.Linear(dim, JOINTS * CHUNK)

    def forward(self, noisy, state, t):
        ang = t[:, None] * self.freq
        c = self.cond(torch.cat([state, ang.sin(), ang.cos()], dim=-1))
        x = self.inp(noisy)
        for block in self.blocks:
            x = block(x, c)
        return self.out(x)


class Demonstrations:
    """Smooth minimum-jerk moves of the joints toward a goal."""

    def __init__(self, seed=77):
        self.gen = torch.Generator(device=DEVICE).manual_seed(seed)
        self.mix = torch.randn(3, JOINTS, device=DEVICE, generator=self.gen) / math.sqrt(3)
        s = torch.linspace(1 / CHUNK, 1, CHUNK, device=DEVICE)
        self.profile = 10 * s**3 - 15 * s**4 + 6 * s**5

    def batch(self, n):
        q = 0.8 * torch.randn(n, JOINTS, device=DEVICE, generator=self.gen)
        dq = 0.3 * torch.randn(n, JOINTS, device=DEVICE, generator=self.gen)
        goal = torch.randn(n, 3, device=DEVICE, generator=self.gen)
        target = torch.tanh(goal @ self.mix)
        move = (target - q)[:, None, :] * self.profile[None, :, None]
        drift = dq[:, None, :] * (self.profile * (1 - self.profile))[None, :, None]
        actions = q[:, None, :] + move + drift
        return torch.cat([q, dq, goal], dim=-1), actions.reshape(n, -1)


def diffusion_loss(policy, state, actions):
    t = torch.rand(actions.shape[0], device=actions.device)
    alpha = torch.cos(0.5 * math.pi * t)[:, None]
    sigma = torch.sin(0.5 * math.pi * t)[:, None]
    eps = torch.randn_like(actions)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        pred = policy(alpha * actions + sigma * eps, state, t)
    return F.mse_loss(pred.float(), eps)


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    policy = DiffusionPolicy().to(DEVICE)
    params = sum(p.numel() for p in policy.parameters())
    opt = torch.optim.AdamW(policy.parameters(), lr=4e-4, weight_decay=0.01, fused=True)
    loss_fn = torch.compile(diffusion_loss)
    demos = Demonstrations()
    batches = [demos.batch(16_384) for _ in range(8)]
    print(f"{params / 1e6:.1f} M parameters")

    times, losses = [], []
    for step in range(36):
        state, actions = batches[step % len(batches)]
        torch.cuda.synchronize()
        t0 = time.perf_counter()
        loss = loss_fn(policy, state, actions)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append((time.perf_counter() - t0) * 1e3)
        losses.append(loss.item())
        if step % 4 == 0:
            print(f"step {step:2d}: {times[-1]:8.3f} ms  loss {losses[-1]:.4f}")

    steady = sorted(times[5:])
    print(f"median {steady[len(steady) // 2]:.3f} ms per step of 16384 chunks")
    print(f"loss {losses[0]:.4f} -> {sum(losses[-4:]) / 4:.4f}")


if __name__ == "__main__":
    main()
