"""HiFi-GAN V1 generator: vocode a list of mel spectrograms one utterance at a time."""

import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

SMALL = SCALE < 0.5
LRELU_SLOPE = 0.1
N_MELS = 80
SR = 22050
UPSAMPLE_RATES = (8, 8, 2, 2) if not SMALL else (8, 8)
UPSAMPLE_KERNELS = (16, 16, 4, 4)
INIT_CH = max(32, int(512 * SCALE))
RES_KERNELS = (3, 7, 11) if not SMALL else (3, 7)
RES_DILATIONS = (1, 3, 5)
N_UTTS = 50 if not SMALL else 8
MIN_T, MAX_T = (80, 700) if not SMALL else (12, 40)


def init_weights(m, std=0.01):
    if isinstance(m, (nn.Conv1d, nn.ConvTranspose1d)):
        m.weight.data.normal_(0.0, std)


class ResBlock1(nn.Module):
    def __init__(self, ch, kernel):
        super().__init__()
        self.convs1 = nn.ModuleList(
            [
                weight_norm(nn.Conv1d(ch, ch, kernel, dilation=d, padding=(kernel * d - d) // 2))
                for d in RES_DILATIONS
            ]
        )
        self.convs2 = nn.ModuleList(
            [weight_norm(nn.Conv1d(ch, ch, kernel, padding=(kernel - 1) // 2)) for _ in RES_DILATIONS]
        )

    def forward(self, x):
        for c1, c2 in zip(self.convs1, self.convs2):
            xt = F.leaky_relu(x, LRELU_SLOPE)
            xt = c1(xt)
            xt = F.leaky_relu(xt, LRELU_SLOPE)
            xt = c2(xt)
            x = xt + x
        return x


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_kernels = len(RES_KERNELS)
        self.conv_pre = weight_norm(nn.Conv1d(N_MELS, INIT_CH, 7, padding=3))
        self.ups = nn.ModuleList()
        self.resblocks = nn.ModuleList()
        ch = INIT_CH
        for u, k in zip(UPSAMPLE_RATES, UPSAMPLE_KERNELS):
            self.ups.append(weight_norm(nn.ConvTranspose1d(ch, ch // 2, k, u, padding=(k - u) // 2)))
            ch //= 2
            for rk in RES_KERNELS:
                self.resblocks.append(ResBlock1(ch, rk))
        self.conv_post = weight_norm(nn.Conv1d(ch, 1, 7, padding=3))

    def forward(self, x):
        x = self.conv_pre(x)
        for i, up in enumerate(self.ups):
            x = F.leaky_relu(x, LRELU_SLOPE)
            x = up(x)
            xs = None
            for j in range(self.num_kernels):
                y = self.resblocks[i * self.num_kernels + j](x)
                xs = y if xs is None else xs + y
            x = xs / self.num_kernels
        x = F.leaky_relu(x)
        x = self.conv_post(x)
        return torch.tanh(x)


class DenoisedVocoder(nn.Module):
    """Generator followed by bias subtraction in the STFT domain."""

    def __init__(self, generator, n_fft=1024, hop=256):
        super().__init__()
        self.generator = generator
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("bias_spec", torch.zeros(n_fft // 2 + 1, 1))

    def stft(self, wav):
        return torch.stft(wav, self.n_fft, self.hop, window=self.window, return_complex=True)

    def calibrate(self, frames):
        wav = self.generator(torch.zeros(1, N_MELS, frames, device=self.window.device))
        self.bias_spec.copy_(self.stft(wav.squeeze(1))[0, :, :1].abs())

    def denoise(self, wav, strength=0.05):
        spec = self.stft(wav)
        mag = (spec.abs() - strength * self.bias_spec).clamp(min=0.0)
        spec = torch.polar(mag, spec.angle())
        return torch.istft(spec, self.n_fft, self.hop, window=self.window, length=wav.shape[-1])

    def forward(self, mel):
        wav = self.generator(mel).squeeze(1)
        return self.denoise(wav.float())


def synthetic_mel(rng, frames):
    t = np.arange(frames)[None, :]
    m = np.arange(N_MELS)[:, None]
    f0 = rng.uniform(0.02, 0.1)
    mel = -6 + 3 * np.sin(f0 * t + m / 7) - m / 40 + 0.3 * rng.standard_normal((N_MELS, frames))
    return torch.from_numpy(mel).float()


@torch.no_grad()
def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    generator = Generator()
    generator.apply(init_weights)
    vocoder = DenoisedVocoder(generator).to(DEVICE).eval()
    vocoder.calibrate(88)
    vocoder.generator = torch.compile(vocoder.generator, dynamic=True)

    lengths = rng.integers(MIN_T, MAX_T, size=N_UTTS)
    total_audio, total_time, peaks = 0.0, 0.0, []
    for i, frames in enumerate(lengths):
        mel = synthetic_mel(rng, int(frames)).unsqueeze(0).to(DEVICE)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        t0 = time.perf_counter()
        with torch.autocast(DEVICE, dtype=torch.float16, enabled=DEVICE == "cuda"):
            audio = vocoder(mel)
        audio = (audio.squeeze() * 32768.0).clamp(-32768, 32767).cpu().numpy().astype("int16")
        dt = time.perf_counter() - t0
        peaks.append(int(np.abs(audio.astype("int32")).max()))
        if i >= 3:
            total_audio += len(audio) / SR
            total_time += dt
        if i % 10 == 0:
            print(f"utt {i}: {frames} frames, {len(audio)} samples, {dt * 1e3:.1f} ms")
    print(f"RTF {total_time / total_audio:.5f}, mean peak {np.mean(peaks):.1f}")


if __name__ == "__main__":
    main()
