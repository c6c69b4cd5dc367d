"""Transolver style neural operator: surface pressure on parametric ship hulls from the point cloud.

Physics attention: the points are softly assigned to a few slices per head, attention runs between the
slice tokens and the result is spread back over the points.  Trained with AdamW under bf16 autocast.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)
torch.set_float32_matmul_precision("high")
device = "cuda"

BATCH, POINTS = 6, 16384
WIDTH, HEADS, SLICES, DEPTH = 256, 8, 64, 8
STEPS = 60


class PhysicsAttention(nn.Module):
    def __init__(self, width, heads, slices):
        super().__init__()
        self.heads, self.dim = heads, width // heads
        self.temperature = nn.Parameter(torch.full((1, heads, 1, 1), 0.5))
        self.to_x = nn.Linear(width, width)
        self.to_feature = nn.Linear(width, width)
        self.to_slice = nn.Linear(self.dim, slices)
        nn.init.orthogonal_(self.to_slice.weight)
        self.to_q = nn.Linear(self.dim, self.dim, bias=False)
        self.to_k = nn.Linear(self.dim, self.dim, bias=False)
        self.to_v = nn.Linear(self.dim, self.dim, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, n, _ = x.shape
        feature = self.to_feature(x).view(b, n, self.heads, self.dim).permute(0, 2, 1, 3)
        mid = self.to_x(x).view(b, n, self.heads, self.dim).permute(0, 2, 1, 3)
        weights = F.softmax(self.to_slice(mid) / self.temperature.clamp(0.1, 5.0), dim=-1)  # b h n g
        norm = weights.sum(2)
        token = torch.einsum("bhnc,bhng->bhgc", feature, weights)
        token = token / (norm + 1e-5)[..., None]
        q, k, v = self.to_q(token), self.to_k(token), self.to_v(token)
        mixed = F.scaled_dot_product_attention(q, k, v)
        spread = torch.einsum("bhgc,bhng->bhnc", mixed, weights)
        return self.out(spread.permute(0, 2, 1, 3).reshape(b, n, -1))


class Block(nn.Module):
    def __init__(self, width, heads, slices):
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attn = PhysicsAttention(width, heads, slices)
        self.ln2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class Transolver(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(features, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.placeholder = nn.Parameter(torch.rand(WIDTH) / WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH, HEADS, SLICES) for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x):
        h = self.embed(x) + self.placeholder
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h)).squeeze(-1)


def hulls(batch):
    """Wigley-like hulls with random beam, draft and speed, and a smooth stand-in for the pressure."""
    beam = 0.08 + 0.1 * torch.rand(batch, 1, device=device)
    draft = 0.05 + 0.08 * torch.rand(batch, 1, device=device)
    froude = 0.2 + 0.25 * torch.rand(batch, 1, device=device)
    x = torch.rand(batch, POINTS, device=device) * 2 - 1
    z = -torch.rand(batch, POINTS, device=device)
    side = torch.where(torch.rand(batch, POINTS, device=device) < 0.5, -1.0, 1.0)
    y = side * beam * (1 - x**2) * (1 - z**2)
    depth = z * draft
    nx = 2 * x * beam * (1 - z**2)
    k = 1.0 / froude**2
    wave = torch.cos(k * (x + 1)) * torch.exp(k * depth)
    pressure = wave * (0.4 + beam * 3) + 1.5 * nx - depth * 2.0
    features = torch.stack([x, y, depth, nx, side, froude.expand_as(x), beam.expand_as(x)], -1)
    return features, (pressure - pressure.mean(1, keepdim=True)) / 0.5


def relative_l2(prediction, target):
    return ((prediction - target).norm(dim=1) / target.norm(dim=1)).mean()


def main():
    model = Transolver(7).to(device)
    model.compile()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-5)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=1e-3, total_steps=STEPS)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")
    model.train()
    running = 0.0
    for step in range(STEPS):
        features, pressure = hulls(BATCH)
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            prediction = model(features)
        loss = relative_l2(prediction.float(), pressure)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        running += loss.detach()
        if (step + 1) % 20 == 0:
            print(f"step {step + 1:3d}  relative L2 {running.item() / 20:.4f}")
            running = 0.0
    model.eval()
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        scores = []
        for _ in range(8):
            features, pressure = hulls(BATCH)
            scores.append(relative_l2(model(features).float(), pressure))
    print(f"test relative L2 {torch.stack(scores).mean().item():.4f}")


if __name__ == "__main__":
    main()
