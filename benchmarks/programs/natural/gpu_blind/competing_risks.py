"""Cause specific deep Cox regression on a synthetic hospital register, full batch training."""

import os
import time

import torch
import torch.nn as nn

SMOKE = os.environ.get("SMOKE") == "1"
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(5)
torch.set_float32_matmul_precision("high")

N = 2000 if SMOKE else 200000
N_NUM = 48
CODES = (36, 120, 900)  # sex/age band, ward, main diagnosis
CAUSES = ("cardiac", "cancer", "other")
STEPS = 12 if SMOKE else 90


def simulate_register():
    x = torch.randn(N, N_NUM)
    codes = torch.stack([torch.randint(c, (N,)) for c in CODES], 1)
    effect = torch.randn(len(CAUSES), N_NUM) * 0.25
    code_effect = [torch.randn(len(CAUSES), c) * 0.3 for c in CODES]
    times = []
    for k in range(len(CAUSES)):
        eta = x @ effect[k] + 0.3 * x[:, k] * x[:, k + 5]
        for j in range(len(CODES)):
            eta = eta + code_effect[j][k][codes[:, j]]
        times.append(-torch.log(torch.rand(N)) * 2000.0 * torch.exp(-eta) * (1 + 0.5 * k))
    censor = 3000.0 * torch.rand(N)
    t, which = torch.stack(times + [censor], 1).min(1)
    event = torch.where(which == len(CAUSES), torch.zeros_like(which), which + 1)
    x[torch.rand(N, N_NUM) < 0.05] = float("nan")
    return x, codes, t, event


class RiskNet(nn.Module):
    def __init__(self, width=160):
        super().__init__()
        dims = (6, 10, 24)
        self.embeddings = nn.ModuleList([nn.Embedding(c, d) for c, d in zip(CODES, dims)])
        self.missing = nn.Parameter(torch.zeros(N_NUM))
        n_in = 2 * N_NUM + sum(dims)
        layers = []
        for _ in range(3):
            layers += [nn.Linear(n_in, width), nn.BatchNorm1d(width), nn.SiLU()]
            n_in = width
        self.trunk = nn.Sequential(*layers)
        self.heads = nn.Linear(width, len(CAUSES), bias=False)

    def forward(self, x, codes):
        absent = torch.isnan(x)
        x = torch.where(absent, self.missing, x)
        parts = [x, absent.to(x.dtype)] + [emb(codes[:, j]) for j, emb in enumerate(self.embeddings)]
        return self.heads(self.trunk(torch.cat(parts, 1)))


def cox_nll(log_hazard, t, event):
    """Negative Breslow partial log likelihood."""
    order = torch.argsort(t, descending=True)
    log_hazard = log_hazard[order]
    event = event[order].to(log_hazard.dtype)
    log_risk_set = torch.logcumsumexp(log_hazard, dim=0)
    return -((log_hazard - log_risk_set) * event).sum() / event.sum()


def total_loss(model, x, codes, t, event):
    log_hazard = model(x, codes)
    losses = [cox_nll(log_hazard[:, k], t, event == k + 1) for k in range(len(CAUSES))]
    loss = torch.stack(losses)
    return loss.sum() + 1e-4 * log_hazard.square().mean(), loss.detach()


def concordance(score, t, event, n_pairs=200000):
    """Harrell's C estimated on random pairs."""
    i = torch.randint(score.numel(), (n_pairs,), device=score.device)
    j = torch.randint(score.numel(), (n_pairs,), device=score.device)
    usable = (t[i] < t[j]) & event[i]
    return ((score[i] > score[j]) & usable).sum() / usable.sum()


def main():
    x, codes, t, event = [v.to(device) for v in simulate_register()]
    print("events per cause", torch.bincount(event, minlength=4).tolist())
    model = RiskNet().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=6e-3, total_steps=STEPS)
    loss_fn = torch.compile(total_loss)
    mark = min(10, STEPS // 2)
    for step in range(STEPS):
        if step == mark:
            if device == "cuda":
                torch.cuda.synchronize()
            t0 = time.perf_counter()
        loss, parts = loss_fn(model, x, codes, t, event)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        if step % 30 == 0 or SMOKE:
            print(f"step {step:3d}  " + "  ".join(f"{c} {v:.4f}" for c, v in zip(CAUSES, parts.tolist())))
    if device == "cuda":
        torch.cuda.synchronize()
    print(f"{(time.perf_counter() - t0) / (STEPS - mark) * 1e3:.3f} ms/step")
    model.eval()
    with torch.no_grad():
        score = model(x, codes)
        for k, cause in enumerate(CAUSES):
            print(f"C-index {cause}: {concordance(score[:, k], t, event == k + 1).item():.3f}")


if __name__ == "__main__":
    main()
