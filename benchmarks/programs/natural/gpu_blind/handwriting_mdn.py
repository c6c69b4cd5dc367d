"""Mixture-density RNN that learns pen trajectories (dx, dy, pen-up)."""

import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

SEQ = max(6, int(80 * SCALE))
BATCH = max(4, int(64 * SCALE))
HIDDEN = max(32, int(400 * SCALE))
MIX = 20
STEPS = 40


class StrokeRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell1 = nn.LSTMCell(3, HIDDEN)
        self.cell2 = nn.LSTMCell(HIDDEN, HIDDEN)
        self.head = nn.Linear(2 * HIDDEN, 6 * MIX + 1)

    def forward(self, x):
        b = x.size(0)
        h1 = x.new_zeros(b, HIDDEN)
        c1 = x.new_zeros(b, HIDDEN)
        h2 = x.new_zeros(b, HIDDEN)
        c2 = x.new_zeros(b, HIDDEN)
        outs = []
        for t in range(x.size(1)):
            h1, c1 = self.cell1(x[:, t], (h1, c1))
            h2, c2 = self.cell2(h1, (h2, c2))
            outs.append(torch.cat([h1, h2], dim=-1))
        return self.head(torch.stack(outs, dim=1))


def mdn_nll(params, target):
    e = params[..., 0]
    pi, mx, my, sx, sy, rho = params[..., 1:].chunk(6, dim=-1)
    log_pi = F.log_softmax(pi, dim=-1)
    sx = sx.clamp(-6, 6)
    sy = sy.clamp(-6, 6)
    rho = torch.tanh(rho) * 0.95
    zx = (target[..., 0:1] - mx) * torch.exp(-sx)
    zy = (target[..., 1:2] - my) * torch.exp(-sy)
    one = 1 - rho.square()
    z = zx.square() + zy.square() - 2 * rho * zx * zy
    log_n = -z / (2 * one) - math.log(2 * math.pi) - sx - sy - 0.5 * torch.log(one)
    ll = torch.logsumexp(log_pi + log_n, dim=-1)
    pen = F.binary_cross_entropy_with_logits(e, target[..., 2])
    return pen - ll.mean()


def make_strokes(n, gen):
    t = torch.arange(SEQ + 1).float()
    w = torch.rand(n, 1, generator=gen) * 0.5 + 0.2
    p = torch.rand(n, 1, generator=gen) * 6.28
    dx = 0.4 + 0.6 * torch.cos(w * t + p)
    dy = torch.sin(1.7 * w * t + p)
    pen = (torch.rand(n, SEQ + 1, generator=gen) < 0.05).float()
    xy = torch.stack([dx, dy], -1) + 0.05 * torch.randn(n, SEQ + 1, 2, generator=gen)
    return torch.cat([xy, pen.unsqueeze(-1)], dim=-1)


def main():
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(12)
    model = StrokeRNN().to(DEVICE)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)

    @torch.compile
    def loss_fn(batch):
        return mdn_nll(model(batch[:, :-1]), batch[:, 1:])

    data = make_strokes(BATCH * 8, gen).to(DEVICE)
    history = []
    for step in range(STEPS):
        lo = (step % 8) * BATCH
        loss = loss_fn(data[lo : lo + BATCH])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        opt.step()
        history.append(loss.detach())
    history = torch.stack(history).cpu()
    print(f"nll first {history[0].item():.4f}  last {history[-1].item():.4f}")


if __name__ == "__main__":
    main()
