"""MAML on dose-response curves: each task is a compound with its own Hill
curve, the inner loop adapts a small MLP on a handful of measured doses."""

import time

import torch
import torch.nn as nn
from torch.func import functional_call, grad, vmap


class CurveNet(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.inp = nn.Linear(2, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        h = torch.tanh(self.inp(x))
        h = torch.nn.functional.silu(self.mid(h)) + h
        return torch.sigmoid(self.out(h)).squeeze(-1)


def sample_tasks(n, shots, queries, gen):
    m = shots + queries
    log_dose = torch.rand(n, m, generator=gen) * 6 - 3
    ec50 = torch.rand(n, 1, generator=gen) * 3 - 1.5
    hill = torch.rand(n, 1, generator=gen) * 2 + 0.5
    top = torch.rand(n, 1, generator=gen) * 0.5 + 0.5
    resp = top / (1 + 10 ** (hill * (ec50 - log_dose)))
    resp = resp + 0.02 * torch.randn(n, m, generator=gen)
    batch_effect = torch.rand(n, 1, generator=gen).expand(n, m)
    x = torch.stack([log_dose, batch_effect], -1)
    return (x[:, :shots], resp[:, :shots]), (x[:, shots:], resp[:, shots:])


class MAML:
    def __init__(self, net, inner_steps=3):
        self.net = net
        self.inner_steps = inner_steps
        self.params = {k: v.detach().clone().requires_grad_() for k, v in net.named_parameters()}
        self.inner_lr = {k: torch.full_like(v, 0.1).requires_grad_() for k, v in self.params.items()}
        self.objective = torch.compile(self.task_objective)

    def support_loss(self, params, x, y):
        pred = functional_call(self.net, params, (x,))
        return torch.nn.functional.huber_loss(pred, y, delta=0.2)

    def adapt_one(self, params, lrs, sx, sy, qx, qy):
        for _ in range(self.inner_steps):
            g = grad(self.support_loss)(params, sx, sy)
            params = {k: p - lrs[k] * g[k] for k, p in params.items()}
        pred = functional_call(self.net, params, (qx,))
        return (pred - qy).square().mean()

    def task_objective(self, params, lrs, support, query):
        losses = vmap(self.adapt_one, in_dims=(None, None, 0, 0, 0, 0))(params, lrs, *support, *query)
        return losses.mean(), losses.detach()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(2)
    gen = torch.Generator().manual_seed(9)
    maml = MAML(CurveNet())
    leaves = list(maml.params.values())
    rates = list(maml.inner_lr.values())
    opt = torch.optim.Adam([{"params": leaves, "lr": 2e-3}, {"params": rates, "lr": 1e-3}])
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.98)

    history = []
    t0 = time.perf_counter()
    for it in range(45):
        support, query = sample_tasks(160, 8, 16, gen)
        loss, per_task = maml.objective(maml.params, maml.inner_lr, support, query)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(leaves, 5.0)
        opt.step()
        sched.step()
        history.append(loss.item())
        if (it + 1) % 15 == 0:
            worst = per_task.quantile(0.9).item()
            print(
                f"iter {it + 1} meta loss {sum(history[-15:]) / 15:.5f} p90 {worst:.5f} "
                f"{(time.perf_counter() - t0) / (it + 1) * 1e3:.1f} ms/iter"
            )


if __name__ == "__main__":
    main()
