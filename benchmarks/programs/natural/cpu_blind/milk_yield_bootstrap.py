"""Bootstrap ensemble of small heteroscedastic networks for the daily milk yield of dairy cows.

All members are trained at once: torch.func.grad inside vmap, an Adam over stacked parameters.
"""

import copy

import torch
import torch.nn as nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

MEMBERS = 24
BATCH = 512
FEATURES = 20


class YieldNet(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(FEATURES, hidden),
            nn.SiLU(),
            nn.LayerNorm(hidden),
            nn.Linear(hidden, hidden),
            nn.SiLU(),
            nn.LayerNorm(hidden),
        )
        self.mean = nn.Linear(hidden, 1)
        self.logvar = nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.body(x)
        return self.mean(h).squeeze(-1), self.logvar(h).squeeze(-1).clamp(-6, 4)


def herd(n, gen):
    x = torch.randn(n, FEATURES, generator=gen)
    day = torch.rand(n, generator=gen) * 300 + 5  # days in milk
    parity = torch.randint(1, 5, (n,), generator=gen).float()
    wood = 17 * day**0.19 * torch.exp(-0.0032 * day) * (1 + 0.07 * (parity - 1))
    y = wood + 1.5 * torch.tanh(x[:, 2]) * x[:, 3] - 0.9 * x[:, 4].relu() + 0.6 * x[:, 5]
    y = y + (1.0 + 0.006 * day) * torch.randn(n, generator=gen)
    x[:, 0] = (day - 155) / 87
    x[:, 1] = parity - 2.5
    return x, (y - 30) / 8


base = YieldNet()


def nll(params, buffers, x, y, weight):
    mu, logvar = functional_call(base, (params, buffers), (x,))
    loss = 0.5 * (logvar + (y - mu) ** 2 * torch.exp(-logvar))
    return (loss * weight).sum() / weight.sum().clamp_min(1.0)


@torch.compile
def train_step(params, buffers, m, v, count, x, y, weight, lr):
    grads, losses = vmap(grad_and_value(nll), in_dims=(0, 0, None, None, 0))(params, buffers, x, y, weight)
    norm = torch.sqrt(sum((g * g).flatten(1).sum(1) for g in grads.values()))
    clip = (1.0 / (norm + 1e-6)).clamp(max=1.0)
    count = count + 1
    c1, c2 = 1 - 0.9**count, 1 - 0.999**count
    new_p, new_m, new_v = {}, {}, {}
    for k, p in params.items():
        g = grads[k] * clip.view(-1, *[1] * (p.dim() - 1))
        new_m[k] = 0.9 * m[k] + 0.1 * g
        new_v[k] = 0.999 * v[k] + 0.001 * g * g
        new_p[k] = p - lr * (new_m[k] / c1 / ((new_v[k] / c2).sqrt() + 1e-8) + 1e-4 * p)
    return new_p, new_m, new_v, count, losses


def predict(params, buffers, x):
    def one(p, b):
        return functional_call(base, (p, b), (x,))

    mu, logvar = vmap(one)(params, buffers)
    mean = mu.mean(0)
    return mean, logvar.exp().mean(0), mu.var(0)


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    x, y = herd(8192, gen)
    xt, yt = herd(2048, gen)
    weight = torch.poisson(torch.ones(MEMBERS, len(x)), generator=gen)

    models = []
    for _ in range(MEMBERS):
        net = copy.deepcopy(base)
        for layer in net.modules():
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()
        models.append(net)
    params, buffers = stack_module_state(models)
    params = {k: p.detach() for k, p in params.items()}
    m = {k: torch.zeros_like(p) for k, p in params.items()}
    v = {k: torch.zeros_like(p) for k, p in params.items()}
    count = torch.zeros(())
    lr = torch.tensor(3e-3)

    steps = 0
    for epoch in range(18):
        for idx in torch.randperm(len(x), generator=gen).split(BATCH):
            params, m, v, count, losses = train_step(
                params, buffers, m, v, count, x[idx], y[idx], weight[:, idx], lr
            )
            steps += 1
        lr = lr * 0.88
        if epoch % 6 == 5:
            print(f"epoch {epoch + 1}  nll {losses.mean():.4f} +- {losses.std():.4f}")

    with torch.no_grad():
        mean, aleatoric, epistemic = predict(params, buffers, xt)
    rmse = 8 * (mean - yt).pow(2).mean().sqrt()
    inside = ((mean - yt).abs() < 1.645 * (aleatoric + epistemic).sqrt()).float().mean()
    print(
        f"{steps} steps; rmse {rmse:.3f} kg/day, 90% interval covers {inside:.3f}, "
        f"epistemic share {(epistemic / (aleatoric + epistemic)).mean():.3f}"
    )


if __name__ == "__main__":
    main()
