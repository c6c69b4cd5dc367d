"""Multichannel filtered-reference LMS control of propeller noise in an aircraft cabin."""

import math

import torch

torch.set_num_threads(2)

FS = 2000
BLOCK = 12


class CabinController:
    def __init__(self, refs, speakers, mics, taps, secondary, step=2e-4, leak=1e-6):
        self.secondary = secondary
        self.step = step
        self.leak = leak
        plant = secondary.shape[-1]
        self.w = torch.zeros(speakers, refs, taps)
        self.x_hist = torch.zeros(refs, taps)
        self.y_hist = torch.zeros(speakers, plant)
        self.x_plant = torch.zeros(refs, plant)
        self.fx_hist = torch.zeros(mics, speakers, refs, taps)

    def sample(self, x, d):
        """One tick: drive the speakers, hear the microphones, adapt."""
        self.x_hist = torch.roll(self.x_hist, 1, dims=-1)
        self.x_hist[:, 0] = x
        self.x_plant = torch.roll(self.x_plant, 1, dims=-1)
        self.x_plant[:, 0] = x
        y = torch.einsum("srt,rt->s", self.w, self.x_hist)
        self.y_hist = torch.roll(self.y_hist, 1, dims=-1)
        self.y_hist[:, 0] = y
        e = d + torch.einsum("msp,sp->m", self.secondary, self.y_hist)
        self.fx_hist = torch.roll(self.fx_hist, 1, dims=-1)
        self.fx_hist[..., 0] = torch.einsum("msp,rp->msr", self.secondary, self.x_plant)
        power = self.fx_hist.square().sum(dim=(0, 1, 3)) + 1e-3
        grad = torch.einsum("m,msrt->srt", e, self.fx_hist)
        self.w = (1 - self.leak) * self.w - 120 * self.step * grad / power[None, :, None]
        return e

    def process(self, x_block, d_block):
        errors = []
        for i in range(BLOCK):
            errors.append(self.sample(x_block[:, i], d_block[:, i]))
        return torch.stack(errors, dim=1)


def room_paths(outputs, inputs, taps, delay, decay):
    n = torch.arange(taps)
    h = torch.randn(outputs, inputs, taps) * torch.exp(-n / decay)
    start = delay + torch.randint(0, delay, (outputs, inputs, 1))
    h = torch.where(n < start, torch.zeros(()), h)
    return h / h.norm(dim=-1, keepdim=True)


def propeller_reference(refs, samples):
    t = torch.arange(samples) / FS
    x = torch.zeros(refs, samples)
    for r in range(refs):
        shaft = 88.0 + 3.0 * r
        drift = 0.4 * torch.sin(2 * math.pi * 0.15 * t + r)
        phase = 2 * math.pi * torch.cumsum(shaft + drift, 0) / FS
        for harmonic in (1, 2, 3):
            x[r] += torch.cos(harmonic * phase + harmonic * r) / harmonic
    return x + 0.02 * torch.randn(refs, samples)


def convolve_paths(h, x):
    n = x.shape[-1] + h.shape[-1]
    spec = torch.einsum("mrf,rf->mf", torch.fft.rfft(h, n=n), torch.fft.rfft(x, n=n))
    return torch.fft.irfft(spec, n=n)[:, : x.shape[-1]]


@torch.no_grad()
def main():
    torch.manual_seed(17)
    refs, speakers, mics, taps = 2, 4, 8, 192
    blocks = 750
    secondary = 0.5 * room_paths(mics, speakers, 64, 4, 10.0)
    primary = room_paths(mics, refs, 128, 12, 20.0)
    x = propeller_reference(refs, blocks * BLOCK)
    d = convolve_paths(primary, x) + 0.01 * torch.randn(mics, blocks * BLOCK)

    controller = CabinController(refs, speakers, mics, taps, secondary)
    process = torch.compile(controller.process)
    heard = []
    for b in range(blocks):
        span = slice(b * BLOCK, (b + 1) * BLOCK)
        heard.append(process(x[:, span], d[:, span]))
    e = torch.cat(heard, dim=1)

    quarter = e.shape[1] // 4
    before = d.square().mean()
    for q in range(4):
        after = e[:, q * quarter : (q + 1) * quarter].square().mean()
        print(f"quarter {q + 1}: attenuation {10 * math.log10(before / after):.1f} dB")
    tail = e[:, -quarter:].square().mean(1)
    worst = 10 * torch.log10(d.square().mean(1) / tail)
    print(f"weakest microphone {worst.min().item():.1f} dB, best {worst.max().item():.1f} dB")


if __name__ == "__main__":
    main()
