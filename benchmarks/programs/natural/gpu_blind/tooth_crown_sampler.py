"""Propose dental crowns as point clouds with a diffusion model.

For each prepared tooth the technician wants several crown proposals. The denoiser is a set transformer with induced
points over the crown's points, cross-attending to the scanned neighbourhood (margin, neighbours, antagonist) and the
FDI tooth number; sampling is DPM-Solver++(2M) on Karras sigmas with classifier-free guidance. Proposals are
ranked by clearance from the antagonist. Scans are synthetic and the weights random in place of the trained ones.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
GPU = device == "cuda"
POINTS, SCAN = (2048, 1024) if GPU else (96, 48)
D, HEADS, LAYERS, INDUCED = (256, 8, 6, 64) if GPU else (32, 4, 2, 8)
PROPOSALS = 12 if GPU else 2
CASES = 14 if GPU else 2
STEPS = 24 if GPU else 10
SIGMA_MIN, SIGMA_MAX, RHO, SIGMA_DATA = 0.003, 20.0, 7.0, 0.35
GUIDANCE = 2.0


class Mab(nn.Module):
    """Queries attend to keys; adaptive norm from the conditioning vector."""

    def __init__(self):
        super().__init__()
        self.nq, self.nk, self.nf = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)
        self.q, self.kv, self.o = nn.Linear(D, D), nn.Linear(D, 2 * D), nn.Linear(D, D)
        self.ff = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))
        self.ada = nn.Linear(D, 2 * D)

    def forward(self, x, y, c):
        b, n, _ = x.shape
        scale, shift = self.ada(c).unsqueeze(1).chunk(2, -1)
        q = self.q(self.nq(x) * (1 + scale) + shift).view(b, n, HEADS, -1).transpose(1, 2)
        k, v = self.kv(self.nk(y)).view(b, y.shape[1], 2, HEADS, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, D)
        x = x + self.o(a)
        return x + self.ff(self.nf(x))


class CrownDenoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.freqs = nn.Parameter(torch.randn(3, 32) * 2, requires_grad=False)
        self.lift, self.scan_lift = nn.Linear(67, D), nn.Linear(67 + 3, D)
        self.tooth = nn.Embedding(33, D)
        self.noise = nn.Sequential(nn.Linear(64, D), nn.SiLU(), nn.Linear(D, D))
        self.induced = nn.ParameterList(nn.Parameter(0.1 * torch.randn(1, INDUCED, D)) for _ in range(LAYERS))
        self.gather = nn.ModuleList(Mab() for _ in range(LAYERS))
        self.spread = nn.ModuleList(Mab() for _ in range(LAYERS))
        self.look = nn.ModuleList(Mab() for _ in range(LAYERS))
        self.out = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 3))

    def fourier(self, p):
        a = p @ self.freqs
        return torch.cat([p, a.sin(), a.cos()], -1)

    def forward(self, x, c_noise, scan, kind, tooth):
        b = x.shape[0]
        f = torch.exp(torch.arange(32, device=x.device) * (-math.log(1000.0) / 32))
        t = self.noise(torch.cat([(c_noise * f).cos(), (c_noise * f).sin()], -1))
        c = F.silu(t + self.tooth(tooth))
        h = self.lift(self.fourier(x))
        s = self.scan_lift(torch.cat([self.fourier(scan), kind], -1))
        s = s * (tooth != 32).view(-1, 1, 1)
        for ind, gather, look, spread in zip(self.induced, self.gather, self.look, self.spread):
            z = gather(ind.expand(b, -1, -1), h, c)
            z = look(z, s, c)
            h = spread(h, z, c)
        return self.out(h)


def guided_denoise(net, x, sigma, scan, kind, tooth):
    c_skip = SIGMA_DATA**2 / (sigma**2 + SIGMA_DATA**2)
    c_out = sigma * SIGMA_DATA / torch.sqrt(sigma**2 + SIGMA_DATA**2)
    c_in = 1 / torch.sqrt(sigma**2 + SIGMA_DATA**2)
    xx = torch.cat([x, x]) * c_in
    none = torch.full_like(tooth, 32)
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        f = net(
            xx, sigma.log() / 4, torch.cat([scan, scan]), torch.cat([kind, kind]), torch.cat([tooth, none])
        )
    cond, free = f.float().chunk(2)
    d = c_skip * x + c_out * (free + GUIDANCE * (cond - free))
    d = d - d.mean(1, keepdim=True)
    limit = torch.quantile(d.norm(dim=-1), 0.98, dim=1).clamp(min=1.0).view(-1, 1, 1)
    return d / limit


class DpmSolver2M:
    def __init__(self, denoise):
        self.denoise = denoise
        ramp = torch.linspace(0, 1, STEPS, device=device)
        lo, hi = SIGMA_MIN ** (1 / RHO), SIGMA_MAX ** (1 / RHO)
        self.sigmas = torch.cat([(hi + ramp * (lo - hi)) ** RHO, torch.zeros(1, device=device)])

    def sample(self, x, *cond):
        x = x * self.sigmas[0]
        old = None
        for i in range(STEPS):
            s, s_next = self.sigmas[i], self.sigmas[i + 1]
            d = self.denoise(x, s, *cond).clone()
            if s_next == 0:
                return d
            h = s.log() - s_next.log()
            if old is None:
                mix = d
            else:
                r = (self.sigmas[i - 1].log() - s.log()) / h
                mix = (1 + 1 / (2 * r)) * d - old / (2 * r)
            x = (s_next / s) * x - torch.expm1(-h) * mix
            old = d
        return x


def make_case(gen):
    """A scan around the gap: margin ring, two neighbours, antagonist surface."""
    n = SCAN // 4
    u = torch.rand(SCAN, 2, generator=gen, device=device)
    ang = 2 * math.pi * u[:, 0]
    ring = torch.stack([0.5 * ang.cos(), 0.5 * ang.sin(), -0.5 + 0.05 * u[:, 1]], -1)[:n]
    ball = torch.stack([ang.cos() * u[:, 1].sqrt(), ang.sin() * u[:, 1].sqrt(), 1 - u[:, 1]], -1) * 0.5
    left, right = (
        ball[n : 2 * n] + ball.new_tensor([-1.1, 0, 0]),
        ball[2 * n : 3 * n] + ball.new_tensor([1.1, 0, 0]),
    )
    cusp = 0.1 * torch.cos(7 * ball[3 * n :, 0]) * torch.cos(7 * ball[3 * n :, 1])
    antag = torch.cat([ball[3 * n :, :2], (0.75 + cusp).unsqueeze(-1)], -1)
    kind = F.one_hot(torch.tensor([0] * n + [1] * 2 * n + [2] * (SCAN - 3 * n), device=device), 3).float()
    return torch.cat([ring, left, right, antag]), kind, antag


@torch.no_grad()
def main():
    torch.manual_seed(17)
    gen = torch.Generator(device=device).manual_seed(17)
    net = CrownDenoiser().to(device).eval()
    denoise = torch.compile(guided_denoise, mode="reduce-overhead")
    solver = DpmSolver2M(lambda *a: denoise(net, *a))
    clearances = []
    for case in range(CASES):
        scan, kind, antag = make_case(gen)
        tooth = torch.full((PROPOSALS,), (case * 5) % 32, device=device)
        noise = torch.randn(PROPOSALS, POINTS, 3, generator=gen, device=device)
        crowns = solver.sample(noise, scan.expand(PROPOSALS, -1, -1), kind.expand(PROPOSALS, -1, -1), tooth)
        gap = torch.cdist(crowns, antag.expand(PROPOSALS, -1, -1)).amin((1, 2))
        best = gap.argmax().item()
        clearances.append(gap[best].item())
        print(
            f"case {case}: tooth {tooth[0].item()}, best proposal {best}, clearance {clearances[-1]:.4f}, "
            f"extent {crowns[best].amax(0).sub(crowns[best].amin(0)).mean():.3f}"
        )
    print(f"mean clearance {sum(clearances) / len(clearances):.4f}")


if __name__ == "__main__":
    main()
