"""Reaction-template classifier for retrosynthesis, trained with Adan.

Molecules are 2048-bit count fingerprints, the net is the usual highway MLP, the target is the template that makes
the molecule.  The Adan update (three moments and the previous gradient) is the compiled part.
"""

import math
import time

import torch
import torch.nn.functional as F
from torch import nn

BITS, HIDDEN, TEMPLATES = 2048, 1024, 2800
BATCH = 48
STEPS = 36


@torch.compile
@torch.no_grad()
def adan_update(params, grads, exp_avg, exp_diff, exp_sq, prev_grad, step, lr, betas, eps, weight_decay):
    b1, b2, b3 = betas
    c1 = 1 - (1 - b1) ** step
    c2 = 1 - (1 - b2) ** step
    c3 = 1 - (1 - b3) ** step
    for p, g, m, v, n, prev in zip(params, grads, exp_avg, exp_diff, exp_sq, prev_grad):
        diff = g - prev
        m.lerp_(g, b1)
        v.lerp_(diff, b2)
        update = g + (1 - b2) * diff
        n.mul_(1 - b3).addcmul_(update, update, value=b3)
        denom = (n / c3).sqrt() + eps
        p.sub_(lr * (m / c1 + (1 - b2) * v / c2) / denom)
        p.div_(1 + lr * weight_decay)
        prev.copy_(g)


class Adan(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.02, 0.08, 0.01), eps=1e-8, weight_decay=0.02):
        super().__init__(
            params, {"lr": torch.tensor(lr), "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )
        self.counter = torch.tensor(0.0)

    def step(self, closure=None):
        self.counter += 1
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            grads = [p.grad for p in params]
            lists = {"exp_avg": [], "exp_diff": [], "exp_sq": [], "prev_grad": []}
            for p in params:
                state = self.state[p]
                if not state:
                    state.update({k: torch.zeros_like(p) for k in ("exp_avg", "exp_diff", "exp_sq")})
                    state["prev_grad"] = p.grad.clone()
                for k, tensors in lists.items():
                    tensors.append(state[k])
            adan_update(
                params,
                grads,
                *lists.values(),
                self.counter,
                group["lr"],
                group["betas"],
                group["eps"],
                group["weight_decay"],
            )


class Highway(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.h = nn.Linear(dim, dim)
        self.t = nn.Linear(dim, dim)
        nn.init.constant_(self.t.bias, -2.0)

    def forward(self, x):
        t = torch.sigmoid(self.t(x))
        return t * F.elu(self.h(x)) + (1 - t) * x


class TemplateNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(BITS, HIDDEN)
        self.highway = Highway(HIDDEN)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(HIDDEN, TEMPLATES)

    def forward(self, fp):
        x = F.elu(self.inp(torch.log1p(fp)))
        return self.out(self.drop(self.highway(x)))


def make_batch(prototypes, popularity, gen):
    label = torch.multinomial(popularity, BATCH, replacement=True, generator=gen)
    keep = torch.rand(BATCH, BITS, generator=gen) < 0.85
    noise = (torch.rand(BATCH, BITS, generator=gen) < 0.01).float()
    return prototypes[label] * keep + noise, label


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    prototypes = torch.poisson(torch.full((TEMPLATES, BITS), 0.04), generator=gen)
    popularity = 1.0 / torch.arange(1, TEMPLATES + 1).float()
    model = TemplateNet()
    opt = Adan(model.parameters(), lr=2e-3)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")
    t_model = t_opt = 0.0
    for step in range(1, STEPS + 1):
        lr = 2e-3 * min(1.0, step / 8) * 0.5 * (1 + math.cos(math.pi * step / (STEPS + 1)))
        opt.param_groups[0]["lr"].fill_(lr)
        fp, label = make_batch(prototypes, popularity, gen)
        t0 = time.perf_counter()
        logits = model(fp)
        loss = F.cross_entropy(logits, label, label_smoothing=0.05)
        opt.zero_grad(set_to_none=False)
        loss.backward()
        t1 = time.perf_counter()
        opt.step()
        t2 = time.perf_counter()
        t_model += t1 - t0
        t_opt += t2 - t1
        if step % 6 == 0 or step == 1:
            top = logits.detach().topk(10, dim=-1).indices
            acc = (top == label[:, None]).any(-1).float().mean()
            print(f"step {step:3d} lr {lr:.1e} loss {loss.item():.3f} top-10 {100 * acc:.1f} %")
    model.eval()
    with torch.no_grad():
        hits = 0
        for _ in range(4):
            fp, label = make_batch(prototypes, popularity, gen)
            hits += (model(fp).argmax(-1) == label).sum().item()
    print(f"held-out top-1 {100 * hits / (4 * BATCH):.1f} %; model {t_model:.2f} s, optimizer {t_opt:.2f} s")


if __name__ == "__main__":
    main()
