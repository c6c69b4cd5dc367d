"""Gated sparse autoencoder on cached residual-stream activations."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

D_MODEL = max(64, int(1024 * min(1.0, SCALE * 2)))
D_DICT = max(256, int(16384 * SCALE))
BATCH = max(64, int(4096 * SCALE))
L1_COEF = 4e-3
WARMUP = 200
STEPS = 50


class GatedSAE(nn.Module):
    def __init__(self, d_model, d_dict, l1_coef, warmup):
        super().__init__()
        w = torch.randn(d_dict, d_model)
        w = w / w.norm(dim=1, keepdim=True)
        self.W_dec = nn.Parameter(w.clone())
        self.W_enc = nn.Parameter(w.t().contiguous().clone())
        self.b_dec = nn.Parameter(torch.zeros(d_model))
        self.b_gate = nn.Parameter(torch.zeros(d_dict))
        self.b_mag = nn.Parameter(torch.zeros(d_dict))
        self.r_mag = nn.Parameter(torch.zeros(d_dict))
        self.l1_coef = l1_coef
        self.warmup = warmup
        self.n_steps = 0
        self.register_buffer("last_fired", torch.zeros(d_dict))

    def sparsity_weight(self):
        return self.l1_coef * min(1.0, (self.n_steps + 1) / self.warmup)

    def encode(self, x):
        pre = (x - self.b_dec) @ self.W_enc
        gate = pre + self.b_gate
        mag = F.relu(pre * torch.exp(self.r_mag) + self.b_mag)
        return gate, torch.where(gate > 0, mag, torch.zeros_like(mag))

    def decode(self, f):
        return f @ self.W_dec + self.b_dec

    def forward(self, x):
        gate, feats = self.encode(x)
        recon = self.decode(feats)
        mse = (recon.float() - x).square().sum(-1).mean()

        via_gate = F.relu(gate)
        norms = self.W_dec.norm(dim=1)
        l1 = (via_gate.float() * norms).sum(-1).mean()
        aux = via_gate @ self.W_dec.detach() + self.b_dec.detach()
        aux = (aux.float() - x).square().sum(-1).mean()

        fired = (feats > 0).any(dim=0)
        self.last_fired.add_(1.0).masked_fill_(fired, 0.0)
        loss = mse + aux + self.sparsity_weight() * l1
        self.n_steps += 1
        return loss, mse.detach(), (feats > 0).float().sum(-1).mean()


class ActivationStore:
    """Activations with a planted sparse structure, shuffled in chunks."""

    def __init__(self, d_model, batch, device, chunks=6):
        true = F.normalize(torch.randn(2 * d_model, d_model, device=device), dim=1)
        self.chunks = []
        for _ in range(chunks):
            code = torch.rand(batch, 2 * d_model, device=device)
            code = code * (code > 0.98)
            noise = 0.01 * torch.randn(batch, d_model, device=device)
            self.chunks.append(code @ true + noise)

    def batch(self, i):
        return self.chunks[i % len(self.chunks)]


def main():
    torch.manual_seed(7)
    sae = GatedSAE(D_MODEL, D_DICT, L1_COEF, WARMUP).to(DEVICE)
    sae_c = torch.compile(sae)
    opt = torch.optim.Adam(sae.parameters(), lr=3e-4, betas=(0.9, 0.999), fused=True)
    store = ActivationStore(D_MODEL, BATCH, DEVICE)

    for step in range(STEPS):
        if step == 20:
            if DEVICE == "cuda":
                torch.cuda.synchronize()
            t0 = time.perf_counter()
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss, mse, l0 = sae_c(store.batch(step))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    ms = (time.perf_counter() - t0) / (STEPS - 20) * 1e3
    dead = (sae.last_fired > 10).float().mean().item()
    print(f"mse {mse.item():.4f}  L0 {l0.item():.1f}  dead {dead:.3f}  {ms:.2f} ms/step")


if __name__ == "__main__":
    main()
