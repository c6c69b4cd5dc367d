"""Trains a Bayesian convolutional classifier of tunnel-lining cracks with BLiTZ and reports its uncertainty."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from blitz.modules import BayesianConv2d, BayesianLinear
from blitz.utils import variational_estimator

CLASSES = 4
SIZE = 40


@variational_estimator
class CrackNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = BayesianConv2d(
            1, 16, (5, 5), padding=2, prior_sigma_1=0.4, prior_sigma_2=0.01, prior_pi=0.6
        )
        self.conv2 = BayesianConv2d(
            16, 32, (3, 3), padding=1, prior_sigma_1=0.4, prior_sigma_2=0.01, prior_pi=0.6
        )
        self.conv3 = BayesianConv2d(
            32, 48, (3, 3), padding=1, prior_sigma_1=0.4, prior_sigma_2=0.01, prior_pi=0.6
        )
        self.fc1 = BayesianLinear(48 * 25, 160)
        self.fc2 = BayesianLinear(160, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.max_pool2d(F.relu(self.conv3(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def lining_patches(n, g):
    yy, xx = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    label = torch.randint(0, CLASSES, (n,), generator=g)
    offset = torch.randint(8, SIZE - 8, (n, 1, 1), generator=g)
    wiggle = 2.0 * torch.sin(xx / 5.0 + 6.28 * torch.rand(n, 1, 1, generator=g))
    along = (yy + wiggle - offset).abs()
    across = (xx + 2.0 * torch.sin(yy / 5.0) - offset).abs()
    diagonal = (yy - xx + offset - SIZE // 2 + wiggle).abs() / 1.4
    kind = label.view(n, 1, 1)
    distance = torch.where(kind == 1, along, torch.where(kind == 2, across, diagonal))
    crack = torch.exp(-((distance / 1.3) ** 2)) * (kind > 0)
    concrete = 0.6 + 0.15 * torch.randn(n, SIZE, SIZE, generator=g)
    image = concrete - 0.5 * crack
    return ((image - 0.55) / 0.2).unsqueeze(1), label


def main():
    torch.set_num_threads(2)
    torch.manual_seed(31)
    g = torch.Generator().manual_seed(31)
    images, labels = lining_patches(576, g)
    test_x, test_y = lining_patches(192, g)

    net = CrackNet()
    criterion = nn.CrossEntropyLoss()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    batch = 24
    weight = 1 / len(images)

    @torch.compile
    def elbo(x, y):
        return net.sample_elbo(
            inputs=x, labels=y, criterion=criterion, sample_nbr=2, complexity_cost_weight=weight
        )

    for epoch in range(2):
        order = torch.randperm(len(images), generator=g)
        running = 0.0
        for idx in order.split(batch):
            opt.zero_grad()
            loss = elbo(images[idx], labels[idx])
            loss.backward()
            opt.step()
            running += loss.item()
        print(f"epoch {epoch}: elbo {running / (len(images) // batch):.3f}")

    net.eval()
    with torch.no_grad():
        draws = torch.stack([net(test_x).softmax(-1) for _ in range(12)])
    mean = draws.mean(0)
    entropy = -(mean * mean.clamp_min(1e-9).log()).sum(-1)
    expected = -(draws * draws.clamp_min(1e-9).log()).sum(-1).mean(0)
    correct = mean.argmax(-1) == test_y
    print(f"accuracy {correct.float().mean():.3f}")
    print(f"total entropy {entropy.mean():.3f}, epistemic part {(entropy - expected).mean():.4f}")


if __name__ == "__main__":
    main()
