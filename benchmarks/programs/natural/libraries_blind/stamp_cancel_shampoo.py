"""Sorting postage stamps by the type of their cancellation mark, trained with Shampoo from ASDL.

Images of stamps with one of six cancellation types are rendered, and a small residual network is trained on
them; the gradients are preconditioned by ASDL's ShampooGradientMaker and applied with SGD.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from asdl import PreconditioningConfig, ShampooGradientMaker

TYPES = ["mint", "circular", "wavy", "bars", "pen", "barred oval"]
SIZE = 48


def render(n, gen):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, SIZE), torch.linspace(-1, 1, SIZE), indexing="ij")
    label = torch.randint(len(TYPES), (n,), generator=gen)
    base = F.interpolate(torch.rand(n, 3, 6, 6, generator=gen), size=(SIZE, SIZE), mode="bilinear")
    images = 0.4 + 0.5 * base
    for i in range(n):
        cy, cx, phase, angle = (torch.rand(4, generator=gen) - 0.5).tolist()
        y, x = yy - 0.6 * cy, xx - 0.6 * cx
        u = x * (1 + 0.2 * angle) + angle * y
        r = (x**2 + y**2).sqrt()
        oval = (x**2 / 0.8 + y**2 / 0.3).sqrt()
        kind = TYPES[label[i]]
        if kind == "circular":
            ink = ((r - 0.6).abs() < 0.05) | ((r - 0.4).abs() < 0.03)
        elif kind == "wavy":
            ink = torch.sin(12 * (y + 0.12 * torch.sin(6 * u + 6 * phase))) > 0.75
        elif kind == "bars":
            ink = torch.sin(14 * y + 6 * phase) > 0.7
        elif kind == "pen":
            ink = ((y - 0.8 * u).abs() < 0.05) | ((y + 0.5 * u).abs() < 0.04)
        elif kind == "barred oval":
            ink = (oval < 0.9) & (torch.sin(18 * y) > 0.3)
        else:
            ink = torch.zeros_like(r, dtype=torch.bool)
        images[i] = images[i] * (1 - 0.7 * ink.float())
    images += 0.06 * torch.randn(images.shape, generator=gen)
    return images.clamp(0, 1), label


class Block(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.short = nn.Conv2d(cin, cout, 1, stride, bias=False) if cin != cout else nn.Identity()

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.short(x))


class StampNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 1, 1)
        self.layers = nn.Sequential(
            Block(width, width), Block(width, 2 * width, 2), Block(2 * width, 3 * width, 2)
        )
        self.fc = nn.Linear(3 * width, len(TYPES))

    def forward(self, x):
        x = self.layers(F.relu(self.stem(x - 0.5)))
        return self.fc(x.mean(dim=(2, 3)))


def main():
    torch.manual_seed(42)
    gen = torch.Generator().manual_seed(1840)
    train_x, train_y = render(640, gen)
    test_x, test_y = render(192, gen)

    net = StampNet()
    model = torch.compile(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    config = PreconditioningConfig(
        preconditioner_upd_interval=10, curvature_upd_interval=1, damping=1e-4, ema_decay=0.05
    )
    grad_maker = ShampooGradientMaker(net, config)

    batch = 32
    for epoch in range(3):
        net.train()
        order = torch.randperm(len(train_x), generator=gen)
        seen = correct = 0
        total = 0.0
        for i in range(0, len(order), batch):
            idx = order[i : i + batch]
            x, y = train_x[idx], train_y[idx]
            if torch.rand(1, generator=gen) < 0.5:
                x = x.flip(-1)
            optimizer.zero_grad()
            dummy = grad_maker.setup_model_call(model, x)
            grad_maker.setup_loss_call(F.cross_entropy, dummy, y)
            logits, loss = grad_maker.forward_and_backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            optimizer.step()
            total += loss.item() * len(y)
            correct += (logits.argmax(1) == y).sum().item()
            seen += len(y)
        net.eval()
        with torch.no_grad():
            pred = torch.cat([model(chunk).argmax(1) for chunk in test_x.split(64)])
        print(
            f"epoch {epoch + 1}: loss {total / seen:.3f}  train {correct / seen:.3f}  "
            f"test {(pred == test_y).float().mean():.3f}"
        )

    confusion = torch.zeros(len(TYPES), len(TYPES), dtype=torch.long)
    confusion.index_put_((test_y, pred), torch.ones_like(pred), accumulate=True)
    for name, row in zip(TYPES, confusion.tolist()):
        print(f"  {name:<12s}", row)


if __name__ == "__main__":
    main()
