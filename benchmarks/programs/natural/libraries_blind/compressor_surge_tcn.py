"""Streams pressure and vibration blocks of one compressor through a causal TCN and raises surge alarms."""

import torch
import torch.nn as nn
from pytorch_tcn import TCN

SENSORS = 12
BLOCK = 512


class SurgeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.tcn = TCN(
            num_inputs=SENSORS,
            num_channels=[48, 48, 64, 64, 64, 64],
            kernel_size=5,
            dropout=0.1,
            causal=True,
            use_norm="layer_norm",
            activation="gelu",
            use_skip_connections=True,
            use_gate=True,
            output_projection=3,
        )
        self.register_buffer("mean", torch.zeros(SENSORS, 1))
        self.register_buffer("std", torch.ones(SENSORS, 1))

    def forward(self, x, streaming=False):
        x = (x - self.mean) / self.std
        return self.tcn(x, inference=streaming)


def compressor_signal(n, length, g):
    t = torch.arange(length) / 200.0
    freq = 3 + 4 * torch.rand(n, SENSORS, 1, generator=g)
    phase = 6.28 * torch.rand(n, SENSORS, 1, generator=g)
    x = torch.sin(6.28 * freq * t + phase)
    onset = torch.randint(length // 4, length, (n, 1), generator=g)
    kind = torch.randint(0, 3, (n, 1), generator=g)
    active = (torch.arange(length) >= onset) & (kind > 0)
    growth = torch.where(kind == 1, 11.0, 1.7)
    burst = torch.sin(6.28 * growth * t) * active
    x = x + 1.2 * burst.unsqueeze(1) + 0.3 * torch.randn(n, SENSORS, length, generator=g)
    return 5.0 + 2.0 * x, torch.where(active, kind, torch.zeros_like(kind))


def train(net, g, steps=12):
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    net.train()
    for _ in range(steps):
        x, y = compressor_signal(8, 256, g)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


class AlarmMonitor:
    def __init__(self, net, threshold=0.6, hold=3):
        self.net = net
        self.step = torch.compile(self._step)
        self.threshold = threshold
        self.hold = hold
        self.count = 0
        self.level = torch.zeros(1, 3)

    def _step(self, block, level):
        probs = self.net(block, streaming=True).softmax(1)
        recent = probs.mean(-1)
        return 0.7 * level + 0.3 * recent, probs.amax(-1)

    @torch.inference_mode()
    def push(self, block):
        self.level, peak = self.step(block, self.level)
        hot = self.level[0, 1:].sum().item() > self.threshold
        self.count = self.count + 1 if hot else 0
        return self.count >= self.hold, peak


def main():
    torch.set_num_threads(2)
    torch.manual_seed(4)
    g = torch.Generator().manual_seed(4)

    net = SurgeNet()
    sample, _ = compressor_signal(64, 512, g)
    net.mean.copy_(sample.mean((0, 2)).unsqueeze(1))
    net.std.copy_(sample.std((0, 2)).unsqueeze(1))
    print(f"training loss {train(net, g):.3f}")

    net.eval()
    net.tcn.reset_buffers()
    with torch.no_grad():
        net(torch.randn(1, SENSORS, BLOCK), streaming=True)
    net.tcn.reset_buffers()

    monitor = AlarmMonitor(net)
    blocks = 240
    stream, labels = compressor_signal(1, BLOCK * blocks, g)
    first_alarm = None
    top = torch.zeros(1, 3)
    for k in range(blocks):
        alarm, peak = monitor.push(stream[:, :, k * BLOCK : (k + 1) * BLOCK])
        top = torch.maximum(top, peak)
        if alarm and first_alarm is None:
            first_alarm = k
    faulty = labels[0].nonzero()
    onset = int(faulty[0]) // BLOCK if len(faulty) else None
    print(f"first alarm in block {first_alarm}, fault began in block {onset}")
    print(f"peak probabilities {[round(v, 3) for v in top[0].tolist()]}")


if __name__ == "__main__":
    main()
