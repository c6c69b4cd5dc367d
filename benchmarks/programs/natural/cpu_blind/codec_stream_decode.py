"""Streaming decoder of our 16 kHz neural audio codec (residual VQ, 50 frames/s).

The call server receives two code frames per packet, decodes them together with
two frames of left context and plays out the new 40 ms.
"""

import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm


def WNConv1d(*args, **kwargs):
    return weight_norm(nn.Conv1d(*args, **kwargs))


def WNConvTranspose1d(*args, **kwargs):
    return weight_norm(nn.ConvTranspose1d(*args, **kwargs))


def snake(x, alpha):
    return x + (alpha + 1e-9).reciprocal() * torch.sin(alpha * x).pow(2)


class Snake1d(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))

    def forward(self, x):
        return snake(x, self.alpha)


class ResidualUnit(nn.Module):
    def __init__(self, dim, dilation=1):
        super().__init__()
        pad = ((7 - 1) * dilation) // 2
        self.block = nn.Sequential(
            Snake1d(dim),
            WNConv1d(dim, dim, kernel_size=7, dilation=dilation, padding=pad),
            Snake1d(dim),
            WNConv1d(dim, dim, kernel_size=1),
        )

    def forward(self, x):
        y = self.block(x)
        pad = (x.shape[-1] - y.shape[-1]) // 2
        if pad > 0:
            x = x[..., pad:-pad]
        return x + y


class DecoderBlock(nn.Module):
    def __init__(self, input_dim, output_dim, stride):
        super().__init__()
        self.block = nn.Sequential(
            Snake1d(input_dim),
            WNConvTranspose1d(
                input_dim,
                output_dim,
                kernel_size=2 * stride,
                stride=stride,
                padding=stride // 2 + stride % 2,
                output_padding=stride % 2,
            ),
            ResidualUnit(output_dim, dilation=1),
            ResidualUnit(output_dim, dilation=3),
            ResidualUnit(output_dim, dilation=9),
        )

    def forward(self, x):
        return self.block(x)


class Decoder(nn.Module):
    def __init__(self, latent=256, channels=512, rates=(8, 5, 4, 2)):
        super().__init__()
        layers = [WNConv1d(latent, channels, kernel_size=7, padding=3)]
        dim = channels
        for rate in rates:
            layers.append(DecoderBlock(dim, dim // 2, rate))
            dim //= 2
        layers += [Snake1d(dim), WNConv1d(dim, 1, kernel_size=7, padding=3), nn.Tanh()]
        self.model = nn.Sequential(*layers)

    def forward(self, x):
        return self.model(x)


class VectorQuantize(nn.Module):
    def __init__(self, latent, codebook_size, codebook_dim):
        super().__init__()
        self.codebook = nn.Embedding(codebook_size, codebook_dim)
        self.out_proj = WNConv1d(codebook_dim, latent, kernel_size=1)

    def decode_code(self, ids):
        return F.embedding(ids, self.codebook.weight).transpose(1, 2)


class Codec(nn.Module):
    def __init__(self, n_codebooks=8, codebook_size=1024, codebook_dim=8, latent=256):
        super().__init__()
        self.quantizers = nn.ModuleList(
            VectorQuantize(latent, codebook_size, codebook_dim) for _ in range(n_codebooks)
        )
        self.decoder = Decoder(latent)
        self.hop = 320

    def from_codes(self, codes):
        z_q = 0.0
        for i in range(codes.shape[1]):
            z_p = self.quantizers[i].decode_code(codes[:, i, :])
            z_q = z_q + self.quantizers[i].out_proj(z_p)
        return z_q

    def forward(self, codes):
        return self.decoder(self.from_codes(codes))


class StreamPlayer:
    def __init__(self, codec, context=2, packet=2):
        self.codec = codec
        self.decode = torch.compile(codec)
        self.context, self.packet = context, packet
        self.history = torch.zeros(1, len(codec.quantizers), context, dtype=torch.long)

    @torch.inference_mode()
    def push(self, codes):
        window = torch.cat([self.history, codes], dim=-1)
        audio = self.decode(window)
        self.history = window[..., -self.context :]
        return audio[0, 0, -self.packet * self.codec.hop :]


def main():
    torch.manual_seed(11)
    codec = Codec().eval()
    player = StreamPlayer(codec)
    n_packets = 250
    stream = torch.randint(0, 1024, (n_packets, 1, 8, 2))
    for k in range(5):
        player.push(stream[k])
    out, lat = [], []
    for k in range(n_packets):
        t0 = time.perf_counter()
        out.append(player.push(stream[k]))
        lat.append((time.perf_counter() - t0) * 1e3)
    audio = torch.cat(out)
    lat.sort()
    print(f"decoded {audio.numel() / 16000:.1f} s of audio, rms {audio.pow(2).mean().sqrt():.4f}")
    print(f"packet latency p50 {statistics.median(lat):.2f} ms  p95 {lat[int(0.95 * len(lat))]:.2f} ms")


if __name__ == "__main__":
    main()
