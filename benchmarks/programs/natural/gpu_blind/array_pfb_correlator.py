# FX correlator for a 64-element low-frequency array: polyphase filterbank, fringe stopping, RFI excision by spectral
# kurtosis, cross multiplication. Voltages arrive as int8 blocks; visibilities are integrated over 10 blocks.
import time

import numpy as np
import torch

device = torch.device("cuda")
torch.manual_seed(11)

N_ANT = 64
N_CHAN = 1024
TAPS = 4
N_SPEC = 512  # spectra per block
FS = 200e6  # sample rate, Hz
N_BLOCKS = 600
INTEGRATE = 10
SK_SIGMA = 4.0


def make_voltages(n_buffers=4):
    n = (N_SPEC + TAPS - 1) * 2 * N_CHAN
    buffers = []
    for _ in range(n_buffers):
        sky = torch.randn(n + 64, device=device)
        lags = torch.randint(0, 64, (N_ANT,))
        v = torch.stack([sky[l : l + n] for l in lags.tolist()]) * 6 + 12 * torch.randn(
            N_ANT, n, device=device
        )
        # a pulsed transmitter at channel 300
        t = torch.arange(n, device=device)
        pulse = ((t // 40000) % 3 == 0).float() * torch.cos(np.pi * 300.0 / N_CHAN * t)
        v += 15 * pulse
        buffers.append(v.round().clamp(-127, 127).to(torch.int8))
    return buffers


class FXCorrelator:
    def __init__(self):
        n = TAPS * 2 * N_CHAN
        win = np.sinc(np.arange(n) / (2 * N_CHAN) - TAPS / 2) * np.hamming(n)
        self.window = torch.tensor(win, dtype=torch.float32, device=device).view(TAPS, 2 * N_CHAN)
        self.freq = torch.arange(N_CHAN, device=device) * (FS / (2 * N_CHAN))
        self.bandpass = torch.ones(N_ANT, N_CHAN, device=device)
        self.reset()
        self._process = torch.compile(self.process)

    def reset(self):
        self.vis = torch.zeros(N_CHAN, N_ANT, N_ANT, dtype=torch.complex64, device=device)
        self.weight = torch.zeros(N_CHAN, device=device)

    def channelise(self, block):
        x = block.to(torch.float32).view(N_ANT, N_SPEC + TAPS - 1, 2 * N_CHAN)
        y = x[:, 0:N_SPEC] * self.window[0]
        for t in range(1, TAPS):
            y = y + x[:, t : t + N_SPEC] * self.window[t]
        return torch.fft.rfft(y, dim=-1)[..., :N_CHAN]

    def flag(self, power):
        m = N_SPEC
        s1 = power.sum(1)
        s2 = (power**2).sum(1)
        sk = (m + 1) / (m - 1) * (m * s2 / s1**2 - 1)
        bad = (sk - 1).abs() > SK_SIGMA * 2 / m**0.5
        return bad.float().mean(0) < 0.3  # good channels

    def process(self, block, tau, rate):
        spec = self.channelise(block)  # ant, time, chan
        t = torch.arange(N_SPEC, device=device) * (2 * N_CHAN / FS)
        delay = tau[:, None] + rate[:, None] * t  # ant, time
        phase = -2 * np.pi * delay[:, :, None] * self.freq
        spec = spec * torch.exp(1j * phase)
        power = spec.real**2 + spec.imag**2
        good = self.flag(power)
        gain = 1.0 / torch.sqrt(self.bandpass * power.mean(1) + 1e-6)
        spec = spec * gain[:, None, :] * good
        vis = torch.einsum("atc,btc->cab", spec, spec.conj()) / N_SPEC
        return vis, good

    def feed(self, block, tau, rate):
        vis, good = self._process(block, tau, rate)
        self.vis += vis
        self.weight += good


def main():
    buffers = make_voltages()
    fx = FXCorrelator()
    baseline = torch.rand(N_ANT, device=device) * 900.0
    products = []
    t0 = time.perf_counter()
    for i in range(N_BLOCKS):
        hour = 2 * np.pi * (i * N_SPEC * 2 * N_CHAN / FS) / 86164.0
        tau = baseline / 2.998e8 * float(np.sin(0.3 + hour))
        rate = baseline / 2.998e8 * float(np.cos(0.3 + hour)) * 7.292e-5
        fx.feed(buffers[i % len(buffers)], tau, rate)
        if (i + 1) % INTEGRATE == 0:
            v = fx.vis / fx.weight.clamp(min=1)[:, None, None]
            products.append(
                (
                    v.diagonal(dim1=1, dim2=2).real.mean().item(),
                    v.abs().mean().item(),
                    (fx.weight < INTEGRATE / 2).sum().item(),
                )
            )
            fx.reset()
    dt = time.perf_counter() - t0
    data_s = N_BLOCKS * N_SPEC * 2 * N_CHAN / FS
    print(f"{N_BLOCKS} blocks ({data_s:.2f} s of data) in {dt:.2f} s")
    for auto, cross, flagged in products[::10]:
        print(f"auto {auto:.4f}  cross {cross:.5f}  flagged channels {flagged}")


main()
