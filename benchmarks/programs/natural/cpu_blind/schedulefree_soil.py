"""Soil organic carbon from near infrared spectra: an MLP trained with a schedule-free AdamW of our own."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def adamw_schedulefree_update(y, grad, z, exp_avg_sq, lr, beta1, beta2, eps, weight_decay, bias2, ckp1):
    exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    denom = (exp_avg_sq / bias2).sqrt() + eps
    step = grad / denom + weight_decay * y
    y.lerp_(z, ckp1)
    y.add_(step * (lr * (beta1 * (1 - ckp1) - 1)))
    z.sub_(step * lr)


class AdamWScheduleFree(torch.optim.Optimizer):
    """Defazio et al. 2024. Parameters hold y while training; call eval() to have x."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, warmup=0):
        super().__init__(
            params,
            dict(
                lr=lr,
                betas=betas,
                eps=eps,
                weight_decay=weight_decay,
                warmup=warmup,
                k=0,
                weight_sum=0.0,
                lr_max=0.0,
                train=True,
            ),
        )
        self.update = torch.compile(adamw_schedulefree_update)

    @torch.no_grad()
    def _swap(self, to_train):
        for group in self.param_groups:
            if group["train"] == to_train:
                continue
            b1 = group["betas"][0]
            weight = 1 - b1 if to_train else 1 - 1 / b1
            for p in group["params"]:
                if "z" in self.state[p]:
                    p.lerp_(self.state[p]["z"], weight)
            group["train"] = to_train

    def train(self):
        self._swap(True)

    def eval(self):
        self._swap(False)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            k = group["k"]
            b1, b2 = group["betas"]
            sched = min(1.0, (k + 1) / group["warmup"]) if group["warmup"] else 1.0
            lr = group["lr"] * sched
            group["lr_max"] = max(lr, group["lr_max"])
            weight = group["lr_max"] ** 2
            group["weight_sum"] += weight
            ckp1 = weight / group["weight_sum"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["z"] = p.clone()
                    state["exp_avg_sq"] = torch.zeros_like(p)
                self.update(
                    p,
                    p.grad,
                    state["z"],
                    state["exp_avg_sq"],
                    lr,
                    b1,
                    b2,
                    group["eps"],
                    group["weight_decay"],
                    1 - b2 ** (k + 1),
                    ckp1,
                )
            group["k"] = k + 1


def spectra(n, bands=1050):
    """Reflectance as a mixture of absorption features; carbon darkens and widens them."""
    wl = torch.linspace(400, 2500, bands)
    carbon = torch.distributions.LogNormal(0.6, 0.6).sample((n, 1))
    clay = torch.rand(n, 1)
    water = torch.rand(n, 1) * 0.4
    r = 0.15 + 0.35 * (1 - torch.exp(-(wl - 350) / 600)) - 0.06 * torch.log1p(carbon)
    for centre, width, depth in [
        (1414, 25, 0.08 * clay),
        (1915, 40, 0.25 * water),
        (2207, 20, 0.12 * clay),
        (2310, 18, 0.03 * torch.log1p(carbon)),
        (900, 90, 0.05 * (1 - clay)),
    ]:
        r = r - depth * torch.exp(-0.5 * ((wl - centre) / width) ** 2)
    r = r * (1 + 0.05 * torch.randn(n, 1)) + 0.003 * torch.randn(n, bands)
    absorb = -torch.log10(r.clamp_min(0.01))
    snv = (absorb - absorb.mean(1, keepdim=True)) / absorb.std(1, keepdim=True)
    return snv, torch.log1p(carbon).squeeze(1)


class SoilMLP(nn.Module):
    def __init__(self, bands=1050, hidden=1280):
        super().__init__()
        self.inp = nn.Linear(bands, hidden)
        self.mid = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(2))
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        h = F.gelu(self.inp(x))
        for norm, lin in zip(self.norms, self.mid):
            h = h + F.gelu(lin(norm(h)))
        return self.out(h).squeeze(-1)


def main():
    torch.manual_seed(8)
    x, y = spectra(4096)
    xt, yt = spectra(1024)
    model = SoilMLP()
    opt = AdamWScheduleFree(model.parameters(), lr=1.5e-3, weight_decay=0.01, warmup=20)
    for epoch in range(3):
        model.train()
        opt.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(96):
            opt.zero_grad()
            loss = F.smooth_l1_loss(model(x[idx]), y[idx])
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        model.eval()
        opt.eval()
        with torch.no_grad():
            err = model(xt) - yt
        r2 = 1 - err.pow(2).mean() / yt.var()
        print(
            f"epoch {epoch + 1}: loss {total / len(x):.4f}, test rmse {err.pow(2).mean().sqrt():.4f}, r2 {r2:.3f}"
        )


if __name__ == "__main__":
    main()
