"""Train a small spiking ConvNet on event-camera gestures (34x34, two polarities).

The recordings are synthetic: a blob that sweeps over the sensor in one of ten
directions, with shot noise. Rate-coded loss on the output spikes.
"""

import math
import time

import snntorch as snn
import snntorch.functional as SF
import torch
import torch.nn as nn
from snntorch import surrogate

NUM_STEPS = 15
BATCH = 12
CLASSES = 10
SIZE = 34
ITERATIONS = 45

torch.manual_seed(7)


def make_batch(gen):
    """Events as a dense tensor [time, batch, polarity, height, width]."""
    label = torch.randint(CLASSES, (BATCH,), generator=gen)
    angle = label.float() * (2 * math.pi / CLASSES)
    t = torch.linspace(-1, 1, NUM_STEPS).view(-1, 1)
    jitter = 2.0 * torch.randn(2, BATCH, generator=gen)
    cx = SIZE / 2 + 11 * t * torch.cos(angle) + jitter[0]
    cy = SIZE / 2 + 11 * t * torch.sin(angle) + jitter[1]
    ys, xs = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    d2 = (xs - cx[..., None, None]) ** 2 + (ys - cy[..., None, None]) ** 2
    lead = (xs - cx[..., None, None]) * torch.cos(angle)[None, :, None, None] + (
        ys - cy[..., None, None]
    ) * torch.sin(angle)[None, :, None, None]
    rate = 0.9 * torch.exp(-d2 / 18)
    p = torch.stack([rate * (lead > 0), rate * (lead <= 0)], dim=2) + 0.01
    events = (torch.rand(p.shape, generator=gen) < p).float()
    return events, label


spike_grad = surrogate.fast_sigmoid(slope=25)
beta = 0.8


class SpikingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 12, 5)
        self.lif1 = snn.Leaky(beta=beta, spike_grad=spike_grad)
        self.conv2 = nn.Conv2d(12, 32, 5)
        self.lif2 = snn.Leaky(beta=beta, spike_grad=spike_grad)
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(32 * 5 * 5, CLASSES)
        self.lif3 = snn.Leaky(beta=beta, spike_grad=spike_grad)

    def forward(self, events):
        mem1 = self.lif1.init_leaky()
        mem2 = self.lif2.init_leaky()
        mem3 = self.lif3.init_leaky()

        spk3_rec, mem3_rec = [], []
        for step in range(events.size(0)):
            cur1 = self.pool(self.conv1(events[step]))
            spk1, mem1 = self.lif1(cur1, mem1)
            cur2 = self.pool(self.conv2(spk1))
            spk2, mem2 = self.lif2(cur2, mem2)
            cur3 = self.fc(spk2.flatten(1))
            spk3, mem3 = self.lif3(cur3, mem3)
            spk3_rec.append(spk3)
            mem3_rec.append(mem3)
        return torch.stack(spk3_rec), torch.stack(mem3_rec)


net = torch.compile(SpikingNet())

optimizer = torch.optim.Adam(net.parameters(), lr=5e-3, betas=(0.9, 0.999))
loss_fn = SF.ce_rate_loss()


def train():
    gen = torch.Generator().manual_seed(1)
    net.train()
    running = 0.0
    start = time.perf_counter()
    for i in range(ITERATIONS):
        data, targets = make_batch(gen)
        spk_rec, mem_rec = net(data)
        loss = loss_fn(spk_rec, targets)

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        running += loss.item()
        if i % 10 == 9:
            acc = SF.accuracy_rate(spk_rec, targets)
            print(f"iteration {i + 1:3d}  loss {running / 10:.3f}  accuracy {acc * 100:.1f}%")
            running = 0.0
    print(f"trained in {time.perf_counter() - start:.1f} s")


@torch.no_grad()
def evaluate(batches=4):
    gen = torch.Generator().manual_seed(99)
    net.eval()
    hits = spikes = 0.0
    for _ in range(batches):
        data, targets = make_batch(gen)
        spk_rec, _ = net(data)
        hits += SF.accuracy_rate(spk_rec, targets) * BATCH
        spikes += spk_rec.sum().item()
    total = batches * BATCH
    print(f"test accuracy {100 * hits / total:.1f}%  output spikes per sample {spikes / total:.1f}")


if __name__ == "__main__":
    train()
    evaluate()
