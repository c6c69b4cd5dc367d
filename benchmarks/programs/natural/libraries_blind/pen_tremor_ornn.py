"""Tell essential tremor from Parkinsonian tremor in spiral drawings on a pen tablet.

An orthogonal recurrent network (geotorch's expRNN recipe): the recurrent matrix lives on the orthogonal group,
so that gradients neither vanish nor explode along the drawing.
"""

import geotorch
import torch
import torch.nn.utils.parametrize as P
from torch import nn

STEPS, FEATURES, CLASSES = 64, 6, 3
HIDDEN, BATCH, EPOCHS = 128, 64, 5


def make_drawings(n, gen):
    """Archimedean spirals in pen coordinates with a control, essential or Parkinsonian tremor on top."""
    label = torch.randint(CLASSES, (n,), generator=gen)
    t = torch.linspace(0, 1, STEPS)
    speed = 1 + 0.2 * torch.randn(n, 1, generator=gen)
    angle = 6 * torch.pi * t * speed
    freq = torch.tensor([0.0, 17.0, 10.0])[label][:, None] + torch.randn(n, 1, generator=gen)
    amp = torch.tensor([0.0, 0.05, 0.06])[label][:, None] * (0.6 + 0.8 * torch.rand(n, 1, generator=gen))
    shrink = torch.tensor([0.0, 0.0, 0.25])[label][:, None]  # micrographia
    radius = t * (1 - shrink * t)
    wobble = amp * torch.sin(2 * torch.pi * freq * t + 6.28 * torch.rand(n, 1, generator=gen))
    x = radius * torch.cos(angle) + wobble + 0.01 * torch.randn(n, STEPS, generator=gen)
    y = radius * torch.sin(angle) + 0.7 * wobble + 0.01 * torch.randn(n, STEPS, generator=gen)
    pressure = 0.6 + 0.2 * torch.rand(n, 1, generator=gen) - 0.2 * shrink * t + wobble.abs()
    d = lambda v: torch.diff(v, dim=1, prepend=v[:, :1])
    seq = torch.stack([x, y, d(x) * 10, d(y) * 10, pressure, d(pressure) * 10], dim=-1)
    return seq, label


class ModReLU(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.b = nn.Parameter(torch.empty(features).uniform_(-0.01, 0.01))

    def forward(self, z):
        return torch.sign(z) * torch.relu(z.abs() + self.b)


class ExpRNNCell(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.hidden = hidden
        self.recurrent_kernel = nn.Linear(hidden, hidden, bias=False)
        self.input_kernel = nn.Linear(inputs, hidden, bias=False)
        self.nonlinearity = ModReLU(hidden)
        nn.init.kaiming_normal_(self.input_kernel.weight, nonlinearity="relu")
        geotorch.orthogonal(self.recurrent_kernel, "weight")

    def default_hidden(self, x):
        return x.new_zeros(x.shape[0], self.hidden)

    def forward(self, x, h):
        return self.nonlinearity(self.input_kernel(x) + self.recurrent_kernel(h))


class TremorNet(nn.Module):
    def __init__(self, hidden=HIDDEN):
        super().__init__()
        self.rnn = ExpRNNCell(FEATURES, hidden)
        self.head = nn.Linear(2 * hidden, CLASSES)

    def forward(self, seq):
        h = self.rnn.default_hidden(seq[:, 0])
        energy = torch.zeros_like(h)
        for x in seq.unbind(dim=1):
            h = self.rnn(x, h)
            energy = energy + h.square()
        return self.head(torch.cat([h, torch.sqrt(energy / STEPS + 1e-6)], dim=1))


def main():
    torch.manual_seed(1)
    gen = torch.Generator().manual_seed(1)
    train_x, train_y = make_drawings(2560, gen)
    test_x, test_y = make_drawings(640, gen)

    model = TremorNet()
    orthogonal = [p for n, p in model.named_parameters() if "recurrent_kernel" in n]
    others = [p for n, p in model.named_parameters() if "recurrent_kernel" not in n]
    optimizer = torch.optim.RMSprop([{"params": others, "lr": 1e-3}, {"params": orthogonal, "lr": 1e-4}])
    criterion = nn.CrossEntropyLoss()
    model.compile()

    for epoch in range(EPOCHS):
        order = torch.randperm(len(train_x), generator=gen)
        total = 0.0
        for idx in order.split(BATCH):
            optimizer.zero_grad()
            with P.cached():  # the matrix exponential once per step, not once per pen sample
                loss = criterion(model(train_x[idx]), train_y[idx])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            total += loss.item()
        correct = 0
        with torch.no_grad(), P.cached():
            for x, y in zip(test_x.split(BATCH), test_y.split(BATCH)):
                correct += (model(x).argmax(1) == y).sum().item()
        print(
            f"epoch {epoch}: loss {total / (len(train_x) / BATCH):.3f}, test accuracy {correct / len(test_x):.3f}"
        )

    w = model.rnn.recurrent_kernel.weight.detach()
    print(f"distance of W^T W from identity {(w.T @ w - torch.eye(HIDDEN)).abs().max():.1e}")


if __name__ == "__main__":
    main()
