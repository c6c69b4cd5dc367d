"""Quantisation-aware distillation of a small token mixer for touch
gestures: an 8-bit/4-bit LSQ student follows a float teacher."""

import time
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class QuantSpec:
    weight_bits: int = 4
    act_bits: int = 8


@dataclass
class Config:
    tokens: int = 48
    dim: int = 32
    hidden: int = 64
    depth: int = 4
    classes: int = 12
    batch: int = 96
    quant: QuantSpec = field(default_factory=QuantSpec)


class LSQFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, qmin, qmax, grad_scale):
        q = x / scale
        ctx.save_for_backward(q, scale)
        ctx.limits = (qmin, qmax, grad_scale)
        return q.clamp(qmin, qmax).round() * scale

    @staticmethod
    def backward(ctx, grad):
        q, scale = ctx.saved_tensors
        qmin, qmax, grad_scale = ctx.limits
        inside = ((q >= qmin) & (q <= qmax)).to(grad.dtype)
        step = torch.where(q < qmin, qmin, torch.where(q > qmax, qmax, q.round() - q))
        grad_scale_param = (grad * step).sum().reshape(scale.shape) * grad_scale
        return grad * inside, grad_scale_param, None, None, None


class LSQ(nn.Module):
    def __init__(self, bits, init):
        super().__init__()
        self.qmin, self.qmax = float(-(2 ** (bits - 1))), float(2 ** (bits - 1) - 1)
        self.scale = nn.Parameter(torch.tensor(init))

    def forward(self, x):
        g = 1.0 / (x.numel() * self.qmax) ** 0.5
        return LSQFunction.apply(x, self.scale, self.qmin, self.qmax, g)


class QLinear(nn.Linear):
    def __init__(self, n_in, n_out, spec=None):
        super().__init__(n_in, n_out)
        self.qw = LSQ(spec.weight_bits, 0.05) if spec else nn.Identity()
        self.qa = LSQ(spec.act_bits, 0.03) if spec else nn.Identity()

    def forward(self, x):
        return F.linear(self.qa(x), self.qw(self.weight), self.bias)


class MixerBlock(nn.Module):
    def __init__(self, cfg, spec):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.t1 = QLinear(cfg.tokens, cfg.tokens, spec)
        self.c1 = QLinear(cfg.dim, cfg.hidden, spec)
        self.c2 = QLinear(cfg.hidden, cfg.dim, spec)
        self.ls = nn.Parameter(torch.full((cfg.dim,), 0.5))

    def forward(self, x):
        h = self.t1(self.n1(x).transpose(1, 2))
        x = x + F.hardswish(h).transpose(1, 2) * self.ls
        return x + self.c2(F.hardswish(self.c1(self.n2(x)))) * self.ls


class Mixer(nn.Module):
    def __init__(self, cfg, quant=True):
        super().__init__()
        spec = cfg.quant if quant else None
        self.embed = nn.Linear(8, cfg.dim)
        self.blocks = nn.ModuleList([MixerBlock(cfg, spec) for _ in range(cfg.depth)])
        self.norm = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.classes)

    def forward(self, x):
        feats = {}
        x = self.embed(x)
        for i, blk in enumerate(self.blocks):
            x = blk(x)
            feats[f"block{i}"] = x
        return self.head(self.norm(x).mean(1)), feats


def distill_loss(student, teacher, x, y, tau=3.0):
    logits, feats = student(x)
    with torch.no_grad():
        t_logits, t_feats = teacher(x)
    kd = (
        F.kl_div(
            F.log_softmax(logits / tau, -1),
            F.log_softmax(t_logits / tau, -1),
            log_target=True,
            reduction="batchmean",
        )
        * tau
        * tau
    )
    hint = sum(F.smooth_l1_loss(feats[k], t_feats[k]) for k in feats) / len(feats)
    return {"ce": F.cross_entropy(logits, y), "kd": kd, "hint": hint}


def gestures(n, cfg, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, cfg.classes, (n,), generator=g)
    t = torch.linspace(0, 6.28, cfg.tokens)[None, :, None]
    k = torch.arange(1, 9).float()[None, None, :]
    x = torch.sin(t * k * (1 + 0.2 * y[:, None, None])) + 0.3 * torch.randn(n, cfg.tokens, 8, generator=g)
    return x, y


def main():
    torch.manual_seed(2)
    torch.set_num_threads(2)
    cfg = Config()
    x, y = gestures(1536, cfg, 0)
    xv, yv = gestures(96, cfg, 1)
    teacher, student = Mixer(cfg, quant=False), Mixer(cfg)
    student.load_state_dict(teacher.state_dict(), strict=False)
    teacher.eval().requires_grad_(False)

    step_loss = torch.compile(distill_loss)
    opt = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    sched = torch.optim.lr_scheduler.StepLR(opt, 16, gamma=0.5)
    t0 = time.perf_counter()
    for step in range(40):
        s = (step * cfg.batch) % len(x)
        losses = step_loss(student, teacher, x[s : s + cfg.batch], y[s : s + cfg.batch])
        loss = losses["ce"] + 0.7 * losses["kd"] + 2.0 * losses["hint"]
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_value_(student.parameters(), 0.5)
        opt.step()
        sched.step()
        if step % 20 == 19:
            with torch.no_grad():
                acc = (student(xv)[0].argmax(-1) == yv).float().mean()
            print(
                f"step {step + 1} "
                + " ".join(f"{k} {v.item():.4f}" for k, v in losses.items())
                + f" val acc {acc:.3f} {(time.perf_counter() - t0):.2f}s"
            )


if __name__ == "__main__":
    main()
