"""Sample chimes from a (randomly initialised, lightly conditioned) WaveNet with fast generation.

Every dilated layer keeps a ring buffer of its past inputs, so that one audio sample costs one pass of
1x1 products (Paine et al. 2016). A bank of voices is generated side by side.
"""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F

VOICES = 16
SAMPLES = 900
MU = 256


def mu_law_decode(q, mu=MU - 1):
    x = 2.0 * q.float() / mu - 1.0
    return torch.sign(x) * ((1 + mu) ** x.abs() - 1) / mu


class CausalLayer(nn.Module):
    def __init__(self, channels, skip, cond, dilation, voices):
        super().__init__()
        self.dilation = dilation
        self.w_past = nn.Linear(channels, 2 * channels, bias=False)
        self.w_now = nn.Linear(channels, 2 * channels)
        self.w_cond = nn.Linear(cond, 2 * channels, bias=False)
        self.res = nn.Linear(channels, channels)
        self.skip = nn.Linear(channels, skip)
        self.register_buffer("queue", torch.zeros(dilation, voices, channels))

    def step(self, x, cond, t):
        slot = t % self.dilation
        past = self.queue[slot].clone()
        self.queue[slot] = x
        h = self.w_past(past) + self.w_now(x) + self.w_cond(cond)
        a, b = h.chunk(2, dim=-1)
        z = torch.tanh(a) * torch.sigmoid(b)
        return (x + self.res(z)) * 0.7071, self.skip(z)


class WaveNet(nn.Module):
    def __init__(self, channels=64, skip=96, cond=16, stacks=3, depth=8, voices=VOICES):
        super().__init__()
        self.embed = nn.Embedding(MU, channels)
        self.layers = nn.ModuleList(
            CausalLayer(channels, skip, cond, 2**d, voices) for _ in range(stacks) for d in range(depth)
        )
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(skip, skip), nn.ReLU(), nn.Linear(skip, MU))

    def reset(self):
        for layer in self.layers:
            layer.queue.zero_()

    def forward(self, token, cond, t):
        x = self.embed(token)
        total = 0
        for layer in self.layers:
            x, s = layer.step(x, cond, t)
            total = total + s
        return self.head(total)


class ChimeConditioner(nn.Module):
    """Turns (pitch, decay, age of note) into the local condition of a sample."""

    def __init__(self, cond=16):
        super().__init__()
        self.proj = nn.Linear(6, cond)

    def forward(self, pitch, decay, n):
        t = torch.arange(n, dtype=torch.float32)[:, None] / 8000.0
        ph = 2 * torch.pi * pitch[None] * t
        env = torch.exp(-decay[None] * t)
        feats = torch.stack([ph.sin(), ph.cos(), (2 * ph).sin(), (2.76 * ph).sin(), env, env.sqrt()], dim=-1)
        return self.proj(feats)


def sample_token(logits, temperature, gen):
    probs = F.softmax(logits / temperature, dim=-1)
    return torch.multinomial(probs, 1, generator=gen).squeeze(-1)


def main():
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(4)
    net = WaveNet().eval()
    conditioner = ChimeConditioner().eval()
    pitch = torch.linspace(380, 990, VOICES)
    decay = torch.linspace(3, 9, VOICES)
    step = torch.compile(net)

    with torch.inference_mode():
        cond = conditioner(pitch, decay, SAMPLES)
        # warm up, then start from silence
        step(torch.full((VOICES,), MU // 2), cond[0], 0)
        net.reset()
        token = torch.full((VOICES,), MU // 2)
        out = torch.empty(SAMPLES, VOICES, dtype=torch.long)
        start = time.perf_counter()
        for t in range(SAMPLES):
            logits = step(token, cond[t], t)
            token = sample_token(logits, 0.9, gen)
            out[t] = token
        took = time.perf_counter() - start
    audio = mu_law_decode(out)
    print(
        f"generated {SAMPLES} samples x {VOICES} voices in {took:.2f} s ({took / SAMPLES * 1e3:.2f} ms a sample)"
    )
    print(f"rms {audio.pow(2).mean().sqrt():.4f}  peak {audio.abs().max():.4f}")
    spec = torch.fft.rfft(audio[:, 0] * torch.hann_window(SAMPLES)).abs()
    print("loudest bin of voice 0:", int(spec.argmax()))


if __name__ == "__main__":
    main()
