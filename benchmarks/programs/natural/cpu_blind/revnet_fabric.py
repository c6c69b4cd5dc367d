"""Reversible residual network for woven fabric textures: activations are not stored but recomputed."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Branch(nn.Sequential):
    def __init__(self, ch):
        super().__init__(
            nn.GroupNorm(4, ch),
            nn.ReLU(),
            nn.Conv2d(ch, ch, 3, padding=1, bias=False),
            nn.GroupNorm(4, ch),
            nn.ReLU(),
            nn.Conv2d(ch, ch, 1),
        )


class ReversibleBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.f = Branch(ch // 2)
        self.g = Branch(ch // 2)

    def forward(self, x):
        x1, x2 = x.chunk(2, dim=1)
        y1 = x1 + self.f(x2)
        y2 = x2 + self.g(y1)
        return torch.cat([y1, y2], dim=1)

    def backward_pass(self, y, dy):
        """Gives back the block's input and the gradient for it; adds to the gradients of the parameters."""
        y1, y2 = y.chunk(2, dim=1)
        dy1, dy2 = dy.chunk(2, dim=1)
        with torch.enable_grad():
            y1 = y1.detach().requires_grad_()
            gy1 = self.g(y1)
            gy1.backward(dy2)
        with torch.no_grad():
            x2 = y2 - gy1
            dx1 = dy1 + y1.grad
        with torch.enable_grad():
            x2 = x2.detach().requires_grad_()
            fx2 = self.f(x2)
            fx2.backward(dx1)
        with torch.no_grad():
            x1 = y1 - fx2
            dx2 = dy2 + x2.grad
        return torch.cat([x1, x2.detach()], dim=1), torch.cat([dx1, dx2], dim=1)


class ReversibleFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, blocks):
        with torch.no_grad():
            for block in blocks:
                x = block(x)
        ctx.y = x.detach()
        ctx.blocks = blocks
        return x

    @staticmethod
    def backward(ctx, dy):
        y = ctx.y
        del ctx.y
        for block in reversed(ctx.blocks):
            y, dy = block.backward_pass(y, dy)
        return dy, None


class ReversibleStage(nn.Module):
    def __init__(self, ch, depth):
        super().__init__()
        self.blocks = nn.ModuleList(ReversibleBlock(ch) for _ in range(depth))

    def forward(self, x):
        return ReversibleFunction.apply(x, self.blocks)


class FabricNet(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.stem = nn.Conv2d(1, 32, 5, stride=2, padding=2)
        self.stage1 = ReversibleStage(32, 4)
        self.down = nn.Conv2d(32, 64, 2, stride=2)
        self.stage2 = ReversibleStage(64, 4)
        self.norm = nn.GroupNorm(8, 64)
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        x = self.stage1(self.stem(x))
        x = self.stage2(self.down(x))
        return self.head(F.relu(self.norm(x)).mean((2, 3)))


def weave(n, size=64):
    """Plain, twill, satin and basket weaves with random pitch, shading and noise."""
    label = torch.randint(0, 4, (n,))
    pitch = 4 + 4 * torch.rand(n, 1, 1)
    u = torch.arange(size).view(1, 1, size) / pitch + torch.rand(n, 1, 1)
    v = torch.arange(size).view(1, size, 1) / pitch + torch.rand(n, 1, 1)
    pi2 = 2 * math.pi
    plain = torch.sign(torch.sin(pi2 * u / 2) * torch.sin(pi2 * v / 2))
    twill = torch.sign(torch.sin(pi2 * (u + v) / 4))
    satin = torch.sign(torch.sin(pi2 * (u + 2 * v) / 5) - 0.6)
    basket = torch.sign(torch.sin(pi2 * u / 4) * torch.sin(pi2 * v / 4))
    img = torch.stack([plain, twill, satin, basket])[label, torch.arange(n)]
    thread = 0.4 * torch.cos(pi2 * u) * torch.cos(pi2 * v)
    img = img * (0.4 + 0.4 * torch.rand(n, 1, 1)) + thread + 0.4 * torch.randn(n, size, size)
    return img[:, None], label


def main():
    torch.manual_seed(21)
    model = FabricNet()
    model.compile()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True)
    steps = 40
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 0.05, total_steps=steps)
    right = seen = 0
    for step in range(steps):
        x, y = weave(16)
        opt.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        opt.step()
        sched.step()
        right += (out.argmax(1) == y).sum().item()
        seen += len(y)
        if step % 10 == 9:
            print(f"step {step + 1}: loss {loss.item():.3f}, right {right / seen:.3f}")
            right = seen = 0

    model.eval()
    with torch.no_grad():
        x, y = weave(128)
        acc = torch.cat([model(c).argmax(1) for c in x.split(16)]).eq(y).float().mean()
    # the inverse must give the input back
    with torch.no_grad():
        a = torch.randn(2, 32, 16, 16)
        block = model.stage1.blocks[0]
        back, _ = block.backward_pass(block(a), torch.zeros_like(a))
    print(f"test accuracy {acc:.3f}; error of the inverse {(back - a).abs().max():.1e}")


if __name__ == "__main__":
    main()
