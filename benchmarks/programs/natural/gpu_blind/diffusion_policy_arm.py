"""
Runs a visuomotor diffusion policy (conditional 1-D U-Net, DDIM) in the control
loop of a 7-DoF arm.  The policy predicts 16 actions from the two last
observations, 8 get executed, then we re-plan.  Weights are random here, the
simulated arm simply follows the joint targets.
"""

import math
import os
import time
from collections import deque

import torch
import torch.nn as nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HORIZON, EXECUTE, OBS_STEPS = 16, 8, 2
ACTION_DIM = 8  # 7 joints + gripper
STATE_DIM = 15
CAMERAS, IMAGE = 2, 96
DIMS = tuple(int(d) for d in os.environ.get("DP_DIMS", "192,384,768").split(","))
TRAIN_STEPS, INFER_STEPS = 100, 10
REPLANS = int(os.environ.get("DP_REPLANS", "40"))


class ConvBlock(nn.Sequential):
    def __init__(self, cin, cout, k=5):
        super().__init__(nn.Conv1d(cin, cout, k, padding=k // 2), nn.GroupNorm(8, cout), nn.Mish())


class CondResBlock(nn.Module):
    """Two conv blocks, FiLM conditioned on observation + diffusion step."""

    def __init__(self, cin, cout, cond):
        super().__init__()
        self.b1, self.b2 = ConvBlock(cin, cout), ConvBlock(cout, cout)
        self.film = nn.Sequential(nn.Mish(), nn.Linear(cond, 2 * cout))
        self.skip = nn.Conv1d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, cond):
        h = self.b1(x)
        scale, bias = self.film(cond)[..., None].chunk(2, dim=1)
        return self.b2(h * (1 + scale) + bias) + self.skip(x)


class StepEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.Mish(), nn.Linear(4 * dim, dim))

    def forward(self, t):
        half = self.dim // 2
        freq = torch.exp(-math.log(10000.0) / (half - 1) * torch.arange(half, device=t.device))
        a = t[:, None].float() * freq[None]
        return self.mlp(torch.cat([a.sin(), a.cos()], dim=-1))


class ConditionalUNet1d(nn.Module):
    def __init__(self, action_dim, obs_dim, dims, step_dim=128):
        super().__init__()
        self.step = StepEmbedding(step_dim)
        cond = obs_dim + step_dim
        chans = [action_dim, *dims]
        self.down = nn.ModuleList()
        for i, (a, b) in enumerate(zip(chans[:-1], chans[1:])):
            last = i == len(dims) - 1
            self.down.append(
                nn.ModuleList(
                    [
                        CondResBlock(a, b, cond),
                        CondResBlock(b, b, cond),
                        nn.Identity() if last else nn.Conv1d(b, b, 3, 2, 1),
                    ]
                )
            )
        self.mid = nn.ModuleList([CondResBlock(dims[-1], dims[-1], cond) for _ in range(2)])
        self.up = nn.ModuleList()
        for a, b in zip(dims[::-1][:-1], dims[::-1][1:]):
            self.up.append(
                nn.ModuleList(
                    [
                        CondResBlock(2 * a, b, cond),
                        CondResBlock(b, b, cond),
                        nn.ConvTranspose1d(b, b, 4, 2, 1),
                    ]
                )
            )
        self.final = nn.Sequential(ConvBlock(dims[0], dims[0]), nn.Conv1d(dims[0], action_dim, 1))

    def forward(self, sample, t, obs):
        x = sample.transpose(1, 2)
        cond = torch.cat([self.step(t), obs], dim=-1)
        skips = []
        for r1, r2, down in self.down:
            x = r2(r1(x, cond), cond)
            skips.append(x)
            x = down(x)
        for m in self.mid:
            x = m(x, cond)
        for r1, r2, up in self.up:
            x = up(r2(r1(torch.cat([x, skips.pop()], dim=1), cond), cond))
        return self.final(x).transpose(1, 2)


class VisualEncoder(nn.Module):
    def __init__(self, out=64, width=32):
        super().__init__()
        layers, c = [nn.Conv2d(3, width, 7, 2, 3), nn.GroupNorm(4, width), nn.ReLU()], width
        for w in (width, 2 * width, 4 * width, 8 * width):
            layers += [
                nn.Conv2d(c, w, 3, 2, 1),
                nn.GroupNorm(w // 8, w),
                nn.ReLU(),
                nn.Conv2d(w, w, 3, 1, 1),
                nn.GroupNorm(w // 8, w),
                nn.ReLU(),
            ]
            c = w
        self.trunk = nn.Sequential(*layers)
        self.proj = nn.Linear(c, out)

    def forward(self, images):
        images = images.float() / 255.0 - 0.5
        return self.proj(self.trunk(images).mean(dim=(2, 3)))


class DDIM:
    """eta = 0, squared-cosine schedule, epsilon prediction."""

    def __init__(self, train_steps, infer_steps):
        t = torch.arange(train_steps + 1) / train_steps
        bar = torch.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
        betas = (1 - bar[1:] / bar[:-1]).clamp(max=0.999)
        self.alphas_cumprod = torch.cumprod(1 - betas, dim=0)
        self.stride = train_steps // infer_steps
        self.timesteps = list(range(0, train_steps, self.stride))[::-1]

    def step(self, eps, t, sample):
        a_t = self.alphas_cumprod[t]
        a_prev = self.alphas_cumprod[t - self.stride] if t >= self.stride else torch.tensor(1.0)
        x0 = (sample - (1 - a_t) ** 0.5 * eps) / a_t**0.5
        x0 = x0.clamp(-1, 1)
        eps = (sample - a_t**0.5 * x0) / (1 - a_t) ** 0.5
        return a_prev**0.5 * x0 + (1 - a_prev) ** 0.5 * eps


class Policy:
    def __init__(self):
        obs_dim = OBS_STEPS * (CAMERAS * 64 + STATE_DIM)
        self.encoder = torch.compile(VisualEncoder().to(DEVICE).eval())
        self.unet = torch.compile(ConditionalUNet1d(ACTION_DIM, obs_dim, DIMS).to(DEVICE).eval())
        self.scheduler = DDIM(TRAIN_STEPS, INFER_STEPS)

    @torch.no_grad()
    def plan(self, images, states):
        feats = self.encoder(images.flatten(0, 1)).view(1, -1)
        cond = torch.cat([feats, states.view(1, -1)], dim=-1)
        x = torch.randn(1, HORIZON, ACTION_DIM, device=DEVICE)
        for t in self.scheduler.timesteps:
            step = torch.tensor([t], device=DEVICE)
            eps = self.unet(x, step, cond)
            x = self.scheduler.step(eps, t, x)
        return x[0, OBS_STEPS - 1 : OBS_STEPS - 1 + EXECUTE]


def main():
    torch.manual_seed(42)
    policy = Policy()
    cams = torch.randint(0, 256, (16, CAMERAS, 3, IMAGE, IMAGE), dtype=torch.uint8)
    state = torch.zeros(STATE_DIM)
    images, states = deque(maxlen=OBS_STEPS), deque(maxlen=OBS_STEPS)
    for i in range(OBS_STEPS):
        images.append(cams[i])
        states.append(state.clone())

    latencies = []
    for k in range(REPLANS + 3):
        tick = time.perf_counter()
        actions = policy.plan(torch.stack(list(images)).to(DEVICE), torch.stack(list(states)).to(DEVICE))
        if torch.isnan(actions).any():
            raise RuntimeError("policy produced NaN, stopping the arm")
        actions = actions.cpu()
        if k >= 3:
            latencies.append(time.perf_counter() - tick)
        for j, a in enumerate(actions):  # "execute"
            state[:7] += 0.1 * (a[:7] - state[:7])
            state[7:14] = 0.1 * a[:7]
            state[14] = a[7]
            images.append(cams[(k * EXECUTE + j) % len(cams)])
            states.append(state.clone())

    lat = torch.tensor(latencies) * 1e3
    print(f"final joints {[round(v, 3) for v in state[:7].tolist()]}")
    print(f"replanning: mean {lat.mean():.2f} ms, max {lat.max():.2f} ms over {len(lat)} plans")


if __name__ == "__main__":
    main()
