"""Online clustering of fermenter sensor windows.

A small frozen encoder maps windows of sensor readings to an embedding; a
prototype memory assigns each embedding and follows slow drift of the process.
"""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)
torch.manual_seed(11)

SENSORS = 8
WINDOW = 32
DIM = 48
STATES = 12


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(SENSORS * WINDOW, 96)
        self.hid = nn.Linear(96, 96)
        self.out = nn.Linear(96, DIM)
        self.norm = nn.LayerNorm(96)

    def forward(self, x):
        x = (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 0.5) + 0.3 * x
        h = F.silu(self.inp(x.flatten(1)))
        h = h + F.silu(self.hid(self.norm(h)))
        return F.normalize(self.out(h), dim=-1)


class PrototypeMemory(nn.Module):
    def __init__(self, states=STATES, dim=DIM, max_decay=0.995):
        super().__init__()
        self.max_decay = max_decay
        self.seen = 0
        self.register_buffer("proto", F.normalize(torch.randn(states, dim), dim=-1))
        self.register_buffer("usage", torch.ones(states))

    def forward(self, z):
        sim = z @ self.proto.t()
        logits = sim / 0.07 - 0.05 * torch.log(self.usage)
        soft = torch.softmax(logits, dim=-1)

        self.seen += 1
        decay = min(self.max_decay, (1 + self.seen) / (10 + self.seen))
        mass = soft.sum(0)
        target = (soft.t() @ z) / (mass.unsqueeze(1) + 1e-4)
        moved = decay * self.proto + (1 - decay) * target
        self.proto.copy_(F.normalize(moved, dim=-1))
        self.usage.mul_(decay).add_(mass, alpha=1 - decay)
        return soft


class StateTracker(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.memory = PrototypeMemory()

    def forward(self, x):
        z = self.encoder(x)
        soft = self.memory(z)
        entropy = -(soft * torch.log(soft + 1e-9)).sum(-1)
        novelty = 1.0 - (z @ self.memory.proto.t()).amax(-1)
        score = torch.sigmoid(4.0 * novelty + entropy - 2.0)
        return soft.argmax(-1), score


def make_stream(n_batches, batch, gen):
    modes = 2.0 * torch.randn(5, SENSORS, generator=gen)
    slope = 0.05 * torch.randn(5, SENSORS, generator=gen)
    t = torch.arange(WINDOW).view(1, WINDOW, 1)
    for _ in range(n_batches):
        y = torch.randint(0, 5, (batch,), generator=gen)
        noise = 0.3 * torch.randn(batch, WINDOW, SENSORS, generator=gen)
        yield modes[y].unsqueeze(1) + slope[y].unsqueeze(1) * t + noise, y


def purity(assign, labels):
    table = torch.zeros(STATES, 5)
    table.index_put_((assign, labels), torch.ones(len(labels)), accumulate=True)
    return float(table.amax(1).sum() / table.sum())


def main():
    gen = torch.Generator().manual_seed(5)
    tracker = StateTracker().eval()
    track = torch.compile(tracker)

    stream = list(make_stream(160, 2048, gen))
    times, assigns, labels, scores = [], [], [], []
    with torch.no_grad():
        for x, _ in stream[:3]:
            track(x)
        begin = time.perf_counter()
        for x, y in stream[3:]:
            t0 = time.perf_counter()
            a, s = track(x)
            times.append(time.perf_counter() - t0)
            assigns.append(a)
            labels.append(y)
            scores.append(s.mean())
        wall = time.perf_counter() - begin

    p = purity(torch.cat(assigns[-40:]), torch.cat(labels[-40:]))
    print(f"purity {p:.3f}, last score {scores[-1]:.3f}, windows seen {len(times) * 2048}")
    assert p > 0.8
    times.sort()
    print(f"stream {wall:.2f} s, median {1e3 * times[len(times) // 2]:.2f} ms per batch")


if __name__ == "__main__":
    main()
