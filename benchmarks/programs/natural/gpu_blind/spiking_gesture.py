"""Convolutional spiking network for event-camera gesture recognition, trained
through time with an arctangent surrogate gradient."""

import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1"))

BATCH = max(2, int(32 * SCALE))
STEPS = 16 if SCALE >= 0.5 else 6
SIZE = 64 if SCALE >= 0.5 else 32
WIDTHS = (32, 64, 128) if SCALE >= 0.5 else (8, 8, 16)
CLASSES = 11


class AtanSpike(torch.autograd.Function):
    """Heaviside forward, derivative of arctan backward."""

    @staticmethod
    def forward(ctx, v, alpha):
        ctx.save_for_backward(v)
        ctx.alpha = alpha
        return (v >= 0).to(v.dtype)

    @staticmethod
    def backward(ctx, grad):
        (v,) = ctx.saved_tensors
        a = ctx.alpha
        return grad * (a / 2) / (1 + (math.pi / 2 * a * v) ** 2), None


class PLIF(nn.Module):
    """Leaky integrate-and-fire with a learned time constant, soft reset."""

    def __init__(self, threshold=1.0, tau=2.0):
        super().__init__()
        self.threshold = threshold
        self.w = nn.Parameter(torch.tensor(-math.log(tau - 1.0 + 1e-6)))

    def forward(self, current, v):
        leak = torch.sigmoid(self.w)
        v = v + (current - v) * leak
        spike = AtanSpike.apply(v - self.threshold, 2.0)
        v = v - spike.detach() * self.threshold
        return spike, v


class Stage(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(cout)
        self.neuron = PLIF()

    def forward(self, x, v):
        spike, v = self.neuron(self.bn(self.conv(x)), v)
        return F.avg_pool2d(spike, 2), v, spike.mean()


class GestureSNN(nn.Module):
    def __init__(self):
        super().__init__()
        w = WIDTHS
        self.stages = nn.ModuleList([Stage(2, w[0]), Stage(w[0], w[1]), Stage(w[1], w[2])])
        flat = w[2] * (SIZE // 8) ** 2
        self.fc1 = nn.Linear(flat, 256)
        self.n1 = PLIF()
        self.fc2 = nn.Linear(256, CLASSES)
        self.decay = 0.8

    def forward(self, events):
        b = events.shape[1]
        volts, side = [], SIZE
        for width in WIDTHS:
            volts.append(events.new_zeros(b, width, side, side))
            side //= 2
        v1 = events.new_zeros(b, 256)
        readout = events.new_zeros(b, CLASSES)
        logits = events.new_zeros(b, CLASSES)
        rate = events.new_zeros(())
        for t in range(events.shape[0]):
            x = events[t]
            for i, stage in enumerate(self.stages):
                x, volts[i], fired = stage(x, volts[i])
                rate = rate + fired
            s1, v1 = self.n1(self.fc1(x.flatten(1)), v1)
            readout = self.decay * readout + self.fc2(s1)
            logits = logits + readout
        steps = events.shape[0]
        return logits / steps, rate / (steps * len(self.stages))


def synth_events(n, gen):
    """Blobs orbiting at class-dependent speed and direction, ON/OFF polarity."""
    label = torch.randint(0, CLASSES, (n,), generator=gen)
    speed = (label.float() - CLASSES / 2) * 0.12
    axis = torch.linspace(-1, 1, SIZE)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    phase = 6.28 * torch.rand(n, generator=gen)
    frames = []
    for t in range(STEPS + 1):
        a = phase + speed * t
        cy, cx = 0.5 * torch.sin(a), 0.5 * torch.cos(a)
        d2 = (yy - cy[:, None, None]) ** 2 + (xx - cx[:, None, None]) ** 2
        frames.append(torch.exp(-d2 / 0.04))
    video = torch.stack(frames)
    change = video[1:] - video[:-1]
    noise = torch.rand(change.shape, generator=gen) < 0.01
    on = ((change > 0.05) | noise).float()
    off = (change < -0.05).float()
    return torch.stack([on, off], dim=2).to(DEVICE), label.to(DEVICE)


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(4)
    loader = [synth_events(BATCH, gen) for _ in range(5)]
    model = GestureSNN().to(DEVICE)
    net = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=DEVICE.startswith("cuda"))

    def train_step(i):
        events, label = loader[i % len(loader)]
        logits, rate = net(events)
        loss = F.cross_entropy(logits, label) + 0.1 * (rate - 0.1).relu()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        hits = (logits.argmax(-1) == label).float().mean()
        return loss.detach().clone(), hits, rate.detach().clone()

    for i in range(5):
        loss, _, _ = train_step(i)
    print(f"warm loss {float(loss):.4f}")
    begin = time.perf_counter()
    iters = 50 if SCALE >= 0.5 else 15
    for i in range(iters):
        loss, hits, rate = train_step(i)
    summary = torch.stack([loss, hits, rate]).tolist()
    took = time.perf_counter() - begin
    print(f"loss {summary[0]:.4f}  acc {summary[1]:.3f}  firing rate {summary[2]:.4f}")
    print(f"{1e3 * took / iters:.2f} ms/step, {iters * BATCH / took:.0f} clips/s")


if __name__ == "__main__":
    main()
