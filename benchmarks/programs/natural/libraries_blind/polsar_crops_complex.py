"""Crop types from fully polarimetric SAR patches with a complex-valued CNN (complexPyTorch)."""

import time

import torch
import torch.nn.functional as F
from complexPyTorch.complexFunctions import complex_max_pool2d, complex_relu
from complexPyTorch.complexLayers import ComplexBatchNorm2d, ComplexConv2d, ComplexLinear
from torch import nn

CROPS = ["stembeans", "rapeseed", "bare soil", "potatoes", "wheat", "sugar beet", "peas"]
PATCH, BATCH, STEPS = 24, 48, 60


def scattering_signatures():
    """Per crop a complex mixing matrix from independent scatterers to (HH+VV, HH-VV, 2HV)."""
    gen = torch.Generator().manual_seed(11)
    m = torch.randn(len(CROPS), 3, 3, dtype=torch.complex64, generator=gen)
    power = torch.tensor(
        [
            [1.0, 0.3, 0.2],
            [0.5, 0.3, 0.6],
            [1.2, 0.1, 0.05],
            [0.6, 0.5, 0.4],
            [0.7, 0.6, 0.2],
            [0.9, 0.4, 0.4],
            [0.5, 0.2, 0.3],
        ]
    )
    return 0.08 * m + torch.diag_embed(power.sqrt()).to(torch.complex64)


def make_patches(n, mixing, gen):
    """Speckled single-look vectors, multilooked 3x3 into the upper triangle of the coherency matrix."""
    label = torch.randint(len(CROPS), (n,), generator=gen)
    other = torch.randint(len(CROPS), (n,), generator=gen)
    scatter = torch.randn(n, 3, PATCH + 2, PATCH + 2, dtype=torch.complex64, generator=gen)
    k = torch.einsum("nij,njhw->nihw", mixing[label], scatter)
    k_other = torch.einsum("nij,njhw->nihw", mixing[other], scatter)
    edge = torch.randint(0, PATCH // 3, (n, 1, 1, 1), generator=gen)
    outside = torch.arange(PATCH + 2) < edge  # a strip of the neighbouring field
    k = torch.where(outside, k_other, k)
    rows, cols = torch.triu_indices(3, 3)
    t = k[:, rows] * k[:, cols].conj()
    t = torch.complex(F.avg_pool2d(t.real, 3, 1), F.avg_pool2d(t.imag, 3, 1))
    return t / t.abs().mean((2, 3), keepdim=True).clamp(min=1e-3), label


class ComplexCropNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.conv1 = ComplexConv2d(6, width, 3, padding=1)
        self.bn1 = ComplexBatchNorm2d(width)
        self.conv2 = ComplexConv2d(width, 2 * width, 3, padding=1)
        self.bn2 = ComplexBatchNorm2d(2 * width)
        self.conv3 = ComplexConv2d(2 * width, 2 * width, 3, padding=1)
        self.bn3 = ComplexBatchNorm2d(2 * width)
        self.fc1 = ComplexLinear(2 * width * (PATCH // 4) ** 2, 96)
        self.fc2 = ComplexLinear(96, len(CROPS))

    def forward(self, x):
        x = complex_relu(self.bn1(self.conv1(x)))
        x = complex_max_pool2d(x, 2, 2)
        x = complex_relu(self.bn2(self.conv2(x)))
        x = complex_max_pool2d(x, 2, 2)
        x = complex_relu(self.bn3(self.conv3(x)))
        x = x.reshape(x.shape[0], -1)
        x = complex_relu(self.fc1(x))
        return F.log_softmax(self.fc2(x).abs(), dim=1)


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(5)
    mixing = scattering_signatures()
    train_x, train_y = make_patches(1440, mixing, gen)
    test_x, test_y = make_patches(480, mixing, gen)
    model = ComplexCropNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    net = torch.compile(model)

    start = time.perf_counter()
    model.train()
    for step in range(STEPS):
        idx = torch.randint(len(train_x), (BATCH,), generator=gen)
        optimizer.zero_grad()
        loss = F.nll_loss(net(train_x[idx]), train_y[idx])
        loss.backward()
        optimizer.step()
        if step % 15 == 14:
            print(f"step {step + 1}: loss {loss.item():.3f}")
    print(f"trained in {time.perf_counter() - start:.1f} s")

    model.eval()
    hits = torch.zeros(len(CROPS))
    count = torch.zeros(len(CROPS))
    with torch.no_grad():
        for x, y in zip(test_x.split(BATCH), test_y.split(BATCH)):
            right = net(x).argmax(1) == y
            hits.index_add_(0, y, right.float())
            count.index_add_(0, y, torch.ones_like(y, dtype=torch.float32))
    print(f"overall accuracy {(hits.sum() / count.sum()):.3f}")
    print("per crop", {c: round((h / n).item(), 2) for c, h, n in zip(CROPS, hits, count)})


if __name__ == "__main__":
    main()
