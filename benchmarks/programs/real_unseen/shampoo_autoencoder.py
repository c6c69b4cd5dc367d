"""Trains a deep MLP autoencoder with a hand-written Shampoo optimiser (Adam grafting, periodic inverse roots) with a compiled loss and update."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def inverse_fourth_root(mat, eps=1e-6):
    n = mat.shape[0]
    ridge = eps * mat.diagonal().mean() + 1e-12
    vals, vecs = torch.linalg.eigh(mat + ridge * torch.eye(n, device=mat.device))
    return (vecs * vals.clamp(min=1e-12).pow(-0.25)) @ vecs.T


@torch.compile
def precondition(grad, left, right, inv_l, inv_r, m, v, beta2: float, t):
    left.lerp_(grad @ grad.T, 1 - beta2)
    right.lerp_(grad.T @ grad, 1 - beta2)
    v.lerp_(grad * grad, 1 - beta2)
    adam = grad / ((v / (1 - beta2**t)).sqrt() + 1e-8)
    upd = inv_l @ grad @ inv_r
    upd = upd * (adam.norm() / (upd.norm() + 1e-12))
    m.lerp_(upd, 0.1)
    return m


class Shampoo(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, beta2=0.95, every=6):
        super().__init__(params, dict(lr=lr, beta2=beta2, every=every))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = p.grad if p.ndim == 2 else p.grad.view(1, -1)
                st = self.state[p]
                if not st:
                    st["t"] = torch.zeros((), device=p.device)
                    for name, d in (("l", g.shape[0]), ("r", g.shape[1])):
                        st[name] = torch.zeros(d, d, device=p.device)
                        st["inv_" + name] = torch.eye(d, device=p.device)
                    st["m"], st["v"], st["n"] = torch.zeros_like(g), torch.zeros_like(g), 0
                st["t"] += 1
                st["n"] += 1
                upd = precondition(
                    g, st["l"], st["r"], st["inv_l"], st["inv_r"], st["m"], st["v"], group["beta2"], st["t"]
                )
                if st["n"] % group["every"] == 0:
                    st["inv_l"] = inverse_fourth_root(st["l"])
                    st["inv_r"] = inverse_fourth_root(st["r"])
                p.add_(upd.view_as(p), alpha=-group["lr"])


def curves(n, gen):
    t = torch.linspace(-1, 1, 28, device="cuda")
    yy, xx = torch.meshgrid(t, t, indexing="ij")
    c = torch.rand(n, 6, 1, 1, device="cuda", generator=gen)
    y = (c[:, 0] - 0.5) + (c[:, 1] - 0.5) * torch.sin(math.pi * 2 * c[:, 2] * xx) + (c[:, 3] - 0.5) * xx**2
    return torch.exp(-((yy - y) ** 2) / 0.02).flatten(1)


def main():
    torch.manual_seed(16)
    torch.set_float32_matmul_precision("high")
    gen = torch.Generator(device="cuda").manual_seed(16)
    dims = [784, 512, 256, 32, 256, 512, 784]
    layers = []
    for i, o in zip(dims[:-1], dims[1:]):
        layers += [nn.Linear(i, o), nn.Tanh()]
    model = nn.Sequential(*layers[:-1]).cuda()
    net = torch.compile(model)
    opt = Shampoo(model.parameters(), lr=1e-3)
    losses = []
    for step in range(36):
        x = curves(4096, gen)
        loss = F.binary_cross_entropy_with_logits(net(x), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    print("bce %.5f -> %.5f" % (losses[0].item(), losses[-1].item()))


if __name__ == "__main__":
    main()
