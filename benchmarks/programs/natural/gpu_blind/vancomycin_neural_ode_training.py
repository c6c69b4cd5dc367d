"""Train a latent neural ODE on (synthetic) vancomycin levels of intensive-care patients.

Given covariates and the dosing record, predict plasma concentration over 24 h. The true
process is a two-compartment model with patient-specific clearance; the net does not know that.
"""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

HOURS = 24
N_COV = 6


def simulate_patients(n, device, seed):
    """Covariates, hourly infusion rate (mg/h), hourly level (mg/L), and which were measured."""
    g = torch.Generator(device=device).manual_seed(seed)
    cov = torch.randn(n, N_COV, generator=g, device=device)
    clearance = 4.5 * torch.exp(0.35 * cov[:, 0] - 0.2 * cov[:, 1])
    v1 = 25.0 * torch.exp(0.2 * cov[:, 2])
    v2 = 35.0 * torch.exp(0.2 * cov[:, 3])
    q = 6.0 * torch.exp(0.1 * cov[:, 4])
    infusion = torch.zeros(n, HOURS, device=device)
    start = torch.randint(0, 4, (n,), generator=g, device=device)
    dose = 750 + 250 * torch.randint(0, 4, (n,), generator=g, device=device).float()
    for k in (0, 12):
        infusion.scatter_(1, (start + k)[:, None], dose[:, None])
    a1 = torch.zeros(n, device=device)
    a2 = torch.zeros(n, device=device)
    levels = []
    sub = 10
    for h in range(HOURS):
        for _ in range(sub):
            flow = q * (a1 / v1 - a2 / v2)
            a1 = a1 + (infusion[:, h] - clearance * a1 / v1 - flow) / sub
            a2 = a2 + flow / sub
        levels.append(a1 / v1)
    level = torch.stack(levels, 1)
    level = level * torch.exp(0.08 * torch.randn(n, HOURS, generator=g, device=device))
    seen = (torch.rand(n, HOURS, generator=g, device=device) < 0.3).float()
    return cov, infusion / 1000.0, level / 20.0, seen


class LatentPK(nn.Module):
    def __init__(self, latent=32, hidden=128, substeps=2):
        super().__init__()
        self.substeps = substeps
        self.encoder = nn.Sequential(nn.Linear(N_COV, hidden), nn.SiLU(), nn.Linear(hidden, latent))
        self.field = nn.Sequential(
            nn.Linear(latent + N_COV + 1, hidden),
            nn.Tanh(),
            nn.Linear(hidden, hidden),
            nn.Tanh(),
            nn.Linear(hidden, latent),
        )
        self.readout = nn.Sequential(nn.Linear(latent, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def dzdt(self, z, cov, rate):
        return self.field(torch.cat([z, cov, rate], dim=-1))

    def forward(self, cov, infusion):
        z = self.encoder(cov)
        dt = 1.0 / self.substeps
        out = []
        for h in range(HOURS):
            rate = infusion[:, h : h + 1]
            for _ in range(self.substeps):
                # explicit midpoint
                mid = z + 0.5 * dt * self.dzdt(z, cov, rate)
                z = z + dt * self.dzdt(mid, cov, rate)
            out.append(F.softplus(self.readout(z)).squeeze(-1))
        return torch.stack(out, dim=1)


def masked_log_loss(pred, level, seen):
    err = torch.log(pred + 0.05) - torch.log(level + 0.05)
    return (err.square() * seen).sum() / seen.sum()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--patients", type=int, default=200_000)
    ap.add_argument("--batch", type=int, default=4096)
    ap.add_argument("--steps", type=int, default=1200)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--log-every", type=int, default=100)
    args = ap.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    train = simulate_patients(args.patients, device, seed=1)
    valid = simulate_patients(args.batch, device, seed=2)
    model = LatentPK().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=args.lr, total_steps=args.steps)

    @torch.compile(mode="reduce-overhead")
    def loss_fn(cov, infusion, level, seen):
        return masked_log_loss(model(cov, infusion), level, seen)

    t0 = time.time()
    running = 0.0
    for step in range(1, args.steps + 1):
        pick = torch.randint(args.patients, (args.batch,), device=device)
        cov, infusion, level, seen = (t[pick] for t in train)
        loss = loss_fn(cov, infusion, level, seen)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        running += loss.item()
        if step % args.log_every == 0:
            with torch.no_grad():
                pred = model(valid[0], valid[1])
                mape = ((pred - valid[2]).abs() / valid[2].clamp_min(0.05)).median()
            print(
                f"step {step:5d}  loss {running / args.log_every:.4f}  "
                f"valid median rel. err {mape.item():.3f}  {time.time() - t0:6.1f} s",
                flush=True,
            )
            running = 0.0
    torch.save(model.state_dict(), "/tmp/vancomycin_latent_pk.pt")


if __name__ == "__main__":
    main()
