"""Wayside detector of wheel flats: accelerometers on the rail, analysed chunk by chunk as a train passes.

Everything that reaches over the chunk border (filters, convolutions, noise floor) is carried in a state.
"""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

FS = 20_000
SENSORS = 32
CHUNK = 1024
DECIM = 4


def bandpass_taps(lo, hi, n=65):
    k = torch.arange(n) - (n - 1) / 2

    def lowpass(fc):
        return 2 * fc / FS * torch.sinc(2 * fc / FS * k)

    return (lowpass(hi) - lowpass(lo)) * torch.hamming_window(n, periodic=False)


class CausalConv(nn.Module):
    def __init__(self, cin, cout, k, dilation):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, k, dilation=dilation)
        self.norm = nn.BatchNorm1d(cout)
        self.context = (k - 1) * dilation

    def forward(self, x, past):
        x = torch.cat([past, x], dim=-1)
        new_past = x[..., -self.context :]
        return F.gelu(self.norm(self.conv(x))), new_past


class FlatDetector(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.register_buffer(
            "bands",
            torch.stack(
                [
                    bandpass_taps(50, 400),
                    bandpass_taps(400, 1500),
                    bandpass_taps(1500, 4000),
                    bandpass_taps(4000, 8000),
                ]
            )[:, None],
        )
        dilations = [1, 2, 4, 8]
        chans = [4] + [width] * len(dilations)
        self.layers = nn.ModuleList(CausalConv(a, b, 5, d) for a, b, d in zip(chans, chans[1:], dilations))
        self.head = nn.Conv1d(width, 2, 1)

    def initial_state(self):
        return {
            "chunks": 0,
            "raw": torch.zeros(SENSORS, 1, 64),
            "floor": torch.zeros(SENSORS, 4, 1),
            "past": [torch.zeros(SENSORS, l.conv.in_channels, l.context) for l in self.layers],
            "peak": torch.zeros(SENSORS),
        }

    def forward(self, chunk, state):
        x = chunk[:, None]
        x = x - x.mean(-1, keepdim=True)
        x = torch.cat([state["raw"], x], dim=-1)
        bands = F.conv1d(x, self.bands)
        envelope = F.avg_pool1d(bands.abs(), DECIM)

        n = state["chunks"] + 1
        floor = 0.98 * state["floor"] + 0.02 * envelope.median(-1, keepdim=True).values
        level = floor / (1 - 0.98**n)
        h = torch.log1p(envelope / (level + 1e-6)) - math.log(2)

        past = []
        for layer, p in zip(self.layers, state["past"]):
            y, new = layer(h, p)
            h = y if y.shape != h.shape else h + y
            past.append(new)
        prob = torch.softmax(self.head(h), dim=1)[:, 1]
        peak = torch.maximum(0.9 * state["peak"], prob.amax(-1))
        new_state = {"chunks": n, "raw": x[..., -64:], "floor": floor, "past": past, "peak": peak}
        return prob, new_state


class Wayside:
    def __init__(self, detector):
        self.detector = torch.compile(detector)
        self.state = detector.initial_state()
        self.events = []
        self.open = {}

    @torch.inference_mode()
    def push(self, index, chunk):
        prob, self.state = self.detector(chunk, self.state)
        over = (prob.mean(-1) > 0.5).tolist()
        for sensor, hot in enumerate(over):
            if hot and sensor not in self.open:
                self.open[sensor] = index
            elif not hot and sensor in self.open:
                self.events.append((sensor, self.open.pop(sensor), index))


def passing_train(n_chunks, gen):
    """Rail noise plus periodic impacts from one damaged wheel that moves along the sensors."""
    total = n_chunks * CHUNK
    t = torch.arange(total) / FS
    rumble = torch.sin(2 * math.pi * 63 * t) + 0.5 * torch.sin(2 * math.pi * 210 * t)
    ring = torch.exp(-torch.arange(400) / 60) * torch.sin(2 * math.pi * 2300 / FS * torch.arange(400))
    impacts = torch.zeros(total)
    impacts[::2600] = 12.0
    hits = F.conv1d(impacts[None, None], ring.flip(0)[None, None], padding=399)[0, 0, :total]
    for i in range(n_chunks):
        s = slice(i * CHUNK, (i + 1) * CHUNK)
        where = torch.exp(-0.5 * ((torch.arange(SENSORS) - SENSORS * i / n_chunks) / 2.0) ** 2)
        yield (torch.randn(SENSORS, CHUNK, generator=gen) + rumble[s] + where[:, None] * hits[s])


def main():
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(5)
    station = Wayside(FlatDetector().eval())
    chunks = list(passing_train(720, gen))
    t0 = time.perf_counter()
    for i, chunk in enumerate(chunks):
        station.push(i, chunk)
    wall = time.perf_counter() - t0
    seconds = len(chunks) * CHUNK / FS
    print(f"{seconds:.1f} s of signal in {wall:.2f} s (real-time factor {wall / seconds:.2f})")
    print(
        f"events {len(station.events)}, open {len(station.open)}, largest peak {station.state['peak'].max():.4f}"
    )
    print("noise floor of the bands", [round(v, 3) for v in station.state["floor"].mean((0, 2)).tolist()])


if __name__ == "__main__":
    main()
