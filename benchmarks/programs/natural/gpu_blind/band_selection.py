"""Concrete autoencoder choosing a few bands of an imaging spectrometer that reconstruct the whole spectrum."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(11)
torch.set_float32_matmul_precision("high")

N_BANDS = 224
N_SELECT = 8 if SMOKE else 40
N_PIXELS = 2048 if SMOKE else 131072
BATCH = 64 if SMOKE else 4096
STEPS = 20 if SMOKE else 160


def simulate_scene(n_pixels, n_endmembers=9):
    wl = torch.linspace(0.4, 2.5, N_BANDS)
    spectra = []
    for _ in range(n_endmembers):
        s = 0.25 + 0.3 * torch.rand(1) + 0.1 * torch.randn(1) * (wl - 1.4)
        for _ in range(5):
            centre, width, depth = 0.4 + 2.1 * torch.rand(1), 0.03 + 0.15 * torch.rand(1), 0.2 * torch.rand(1)
            s = s - depth * torch.exp(-0.5 * ((wl - centre) / width) ** 2)
        spectra.append(s.clamp_min(0.01))
    spectra = torch.stack(spectra)
    abundance = torch.softmax(3.0 * torch.randn(n_pixels, n_endmembers), 1)
    light = 0.7 + 0.6 * torch.rand(n_pixels, 1)
    return light * (abundance @ spectra) + 0.004 * torch.randn(n_pixels, N_BANDS)


class ConcreteSelector(nn.Module):
    """Rows of soft one-hot weights over bands; the temperature decays from t_start to t_end."""

    def __init__(self, n_in, n_select, total_batches, t_start=10.0, t_end=0.1):
        super().__init__()
        self.logits = nn.Parameter(0.01 * torch.randn(n_select, n_in))
        self.total_batches = total_batches
        self.t_start, self.t_end = t_start, t_end
        self.seen_batches = 0

    def temperature(self):
        frac = min(1.0, self.seen_batches / self.total_batches)
        return self.t_start * (self.t_end / self.t_start) ** frac

    def forward(self, x):
        if not self.training:
            return x[:, self.logits.argmax(1)]
        self.seen_batches += 1
        u = torch.rand(x.shape[0], *self.logits.shape, device=x.device).clamp(1e-7, 1 - 1e-7)
        gumbel = -torch.log(-torch.log(u))
        weights = torch.softmax((self.logits + gumbel) / self.temperature(), dim=-1)
        return torch.einsum("bkc,bc->bk", weights, x)


class BandAutoencoder(nn.Module):
    def __init__(self, total_batches):
        super().__init__()
        self.selector = ConcreteSelector(N_BANDS, N_SELECT, total_batches)
        self.decoder = nn.Sequential(
            nn.Linear(N_SELECT, 320),
            nn.LeakyReLU(0.2),
            nn.Linear(320, 320),
            nn.LeakyReLU(0.2),
            nn.Linear(320, N_BANDS),
        )

    def forward(self, x):
        return self.decoder(self.selector(x))


def spectral_angle(a, b):
    cos = F.cosine_similarity(a, b, dim=1, eps=1e-6)
    return torch.acos(cos.clamp(-0.999999, 0.999999))


def duplicate_rate(model):
    chosen = model.selector.logits.argmax(1)
    return 1.0 - torch.unique(chosen).numel() / chosen.numel()


def main():
    scene = simulate_scene(N_PIXELS).to(device)
    mean, std = scene.mean(0), scene.std(0)
    model = BandAutoencoder(STEPS).to(device).train()
    net = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    mark = min(20, STEPS // 2)
    for step in range(STEPS):
        if step == mark:
            if device == "cuda":
                torch.cuda.synchronize()
            t0 = time.perf_counter()
        pixels = scene[torch.randint(N_PIXELS, (BATCH,), device=device)]
        x = (pixels - mean) / std
        rec = net(x)
        loss = F.mse_loss(rec, x) + 0.1 * spectral_angle(rec * std + mean, pixels).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 40 == 39 or (SMOKE and step % 5 == 4):
            print(f"step {step + 1:4d}  loss {loss.item():.4f}  T {float(model.selector.temperature()):.3f}")
    if device == "cuda":
        torch.cuda.synchronize()
    ms = (time.perf_counter() - t0) / (STEPS - mark) * 1e3
    print(f"{ms:.3f} ms/step, duplicate bands {duplicate_rate(model):.2f}")
    model.eval()
    with torch.no_grad():
        x = (scene[:BATCH] - mean) / std
        print(f"hard selection mse {F.mse_loss(model(x), x).item():.4f}")


if __name__ == "__main__":
    main()
