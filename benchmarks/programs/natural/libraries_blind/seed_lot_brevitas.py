"""Quantisation-aware training of a 4-bit CNN that sorts wheat kernels on an FPGA ejector line (brevitas)."""

import time

import brevitas.nn as qnn
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(5)
torch.set_num_threads(2)

CLASSES = ["sound", "shrivelled", "sprouted", "fusarium", "broken", "rye"]
WBITS, ABITS = 4, 4


def kernel_images(n, gen, size=40):
    """Ellipses with class-dependent shape, colour and spots, on the dark belt."""
    label = torch.randint(0, len(CLASSES), (n,), generator=gen)
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    angle = torch.rand(n, 1, 1, generator=gen) * 3.14159
    u = xx * angle.cos() + yy * angle.sin()
    v = -xx * angle.sin() + yy * angle.cos()
    lab = label.view(-1, 1, 1)
    long_axis = 0.75 - 0.3 * (lab == 4) + 0.15 * (lab == 5)
    short_axis = 0.42 - 0.14 * (lab == 1) - 0.12 * (lab == 5)
    body = torch.sigmoid(12 * (1 - (u / long_axis) ** 2 - (v / short_axis) ** 2))
    base = torch.tensor(
        [
            [0.8, 0.6, 0.3],
            [0.6, 0.45, 0.25],
            [0.75, 0.65, 0.35],
            [0.85, 0.7, 0.65],
            [0.8, 0.6, 0.3],
            [0.55, 0.55, 0.4],
        ]
    )
    img = body.unsqueeze(1) * base[label].view(n, 3, 1, 1)
    sprout = torch.exp(-(((u - 0.75) / 0.12) ** 2 + (v / 0.1) ** 2)) * (lab == 2)
    img = img + 0.5 * sprout.unsqueeze(1)
    crease = torch.exp(-((v / 0.06) ** 2)) * body * 0.25
    img = img - crease.unsqueeze(1)
    img = img + 0.08 * torch.randn(n, 3, size, size, generator=gen)
    return img.clamp(0, 1), label


class QuantBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv = qnn.QuantConv2d(
            cin, cout, 3, stride=stride, padding=1, bias=False, weight_bit_width=WBITS
        )
        self.bn = nn.BatchNorm2d(cout)
        self.act = qnn.QuantReLU(bit_width=ABITS)

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


class KernelNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.quant_in = qnn.QuantIdentity(bit_width=8)
        self.features = nn.Sequential(
            QuantBlock(3, 24),
            QuantBlock(24, 32, stride=2),
            QuantBlock(32, 32),
            QuantBlock(32, 64, stride=2),
            QuantBlock(64, 64),
        )
        self.head = qnn.QuantLinear(64, n_classes, bias=True, weight_bit_width=8)

    def forward(self, x):
        x = self.features(self.quant_in(x))
        return self.head(x.mean(dim=(2, 3)))


def evaluate(model, images, labels):
    model.eval()
    with torch.no_grad():
        hits = sum(
            (model(images[i : i + 64]).argmax(1) == labels[i : i + 64]).sum().item()
            for i in range(0, len(images), 64)
        )
    model.train()
    return hits / len(images)


def main():
    gen = torch.Generator().manual_seed(1)
    train_x, train_y = kernel_images(1280, gen)
    test_x, test_y = kernel_images(512, gen)
    model = KernelNet(len(CLASSES))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
    net = torch.compile(model)

    start = time.perf_counter()
    step = 0
    for epoch in range(2):
        order = torch.randperm(len(train_x), generator=gen)
        for i in range(0, len(order), 64):
            idx = order[i : i + 64]
            loss = F.cross_entropy(net(train_x[idx]), train_y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 16 == 0:
                print(f"step {step:3d} loss {loss.item():.4f}")
        print(f"epoch {epoch}: test accuracy {evaluate(net, test_x, test_y):.3f}")
    print(f"{time.perf_counter() - start:.1f} s")
    w = model.features[1].conv.quant_weight()
    levels = torch.unique((w.value / w.scale).round())
    print("levels of a 4-bit layer:", len(levels))


if __name__ == "__main__":
    main()
