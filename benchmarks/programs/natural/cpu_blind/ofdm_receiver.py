"""Uplink OFDM receiver chain: CP removal, FFT, channel estimation, MRC, LLRs.

Link-level simulation for a 600-subcarrier, 14-symbol slot with four receive
antennas.  The transmitter and channel stay in plain PyTorch, the receiver
(which is what we sweep over SNR) is compiled.
"""

import argparse
import math
import time

import torch

N_FFT = 1024
N_SC = 600
CP = 72
N_SYM = 14
PILOT_SYMS = (3, 10)
PILOT_STEP = 2
N_RX = 4
QAM_BITS = 6


def qam64():
    """Gray-mapped 64-QAM constellation and the bit labels of its points."""
    labels = torch.arange(64)
    bits = (labels[:, None] >> torch.arange(QAM_BITS - 1, -1, -1)) & 1

    def pam(b):  # 3 gray bits -> {-7..7}
        s = 1 - 2 * b.float()
        return s[:, 0] * (4 - s[:, 1] * (2 - s[:, 2]))

    pts = torch.complex(pam(bits[:, 0::2]), pam(bits[:, 1::2])) / math.sqrt(42)
    return pts, bits


CONST, LABELS = qam64()
SC_INDEX = (torch.arange(N_SC) - N_SC // 2) % N_FFT
PILOT_SC = torch.arange(0, N_SC, PILOT_STEP)


def channel_estimate(grid, pilots):
    """LS at the pilots, smoothing in delay, linear interpolation over time."""
    est = []
    for i, s in enumerate(PILOT_SYMS):
        ls = grid[:, s, PILOT_SC] * pilots[i].conj()  # (rx, pilots)
        cir = torch.fft.ifft(ls, dim=-1)
        window = torch.zeros(cir.shape[-1])
        window[:40] = 1.0
        window[-8:] = 1.0
        ls = torch.fft.fft(cir * window, dim=-1)
        est.append(torch.repeat_interleave(ls, PILOT_STEP, dim=-1))
    h0, h1 = est
    t = (torch.arange(N_SYM) - PILOT_SYMS[0]) / (PILOT_SYMS[1] - PILOT_SYMS[0])
    return h0[:, None, :] + (h1 - h0)[:, None, :] * t[None, :, None]


def demap_maxlog(sym, noise_var):
    """Max-log LLRs: for every bit min distance to the 0-set minus the 1-set."""
    dist = (sym[..., None] - CONST).abs() ** 2 / noise_var[..., None]
    llrs = []
    for b in range(QAM_BITS):
        one = LABELS[:, b] == 1
        d0 = dist.masked_fill(one, float("inf")).min(dim=-1).values
        d1 = dist.masked_fill(~one, float("inf")).min(dim=-1).values
        llrs.append(d1 - d0)
    return torch.stack(llrs, dim=-1)


def receive(samples, pilots, n0):
    """samples: (rx, N_SYM * (N_FFT + CP)) complex baseband -> LLRs (sym, sc, bits)."""
    x = samples.view(N_RX, N_SYM, N_FFT + CP)[..., CP:]
    grid = torch.fft.fft(x, norm="ortho")[..., SC_INDEX]
    h = channel_estimate(grid, pilots)
    power = (h.conj() * h).real.sum(0)
    combined = (h.conj() * grid).sum(0) / power
    return demap_maxlog(combined, n0 / power), combined


receive_c = torch.compile(receive)


def transmit(gen):
    """Random payload bits and pilots, returns the frequency grid."""
    labels = torch.randint(0, 64, (N_SYM, N_SC), generator=gen)
    grid = CONST[labels]
    phase = torch.randint(0, 4, (len(PILOT_SYMS), len(PILOT_SC)), generator=gen) * (math.pi / 2)
    pilots = torch.polar(torch.ones_like(phase), phase + math.pi / 4)
    for i, s in enumerate(PILOT_SYMS):
        grid[s] = 0
        grid[s, PILOT_SC] = pilots[i]
    return grid, pilots, LABELS[labels]


def through_channel(grid, n0, gen):
    """Exponential power-delay profile, static during the slot, AWGN per antenna."""
    taps = torch.exp(-torch.arange(24) / 6.0)
    taps = (taps / taps.sum()).sqrt()
    cir = torch.randn(N_RX, 24, dtype=torch.cfloat, generator=gen) * taps
    h = torch.fft.fft(cir, n=N_FFT)
    full = torch.zeros(N_RX, N_SYM, N_FFT, dtype=torch.cfloat)
    full[..., SC_INDEX] = grid * h[:, None, SC_INDEX]
    x = torch.fft.ifft(full, norm="ortho")
    x = torch.cat([x[..., -CP:], x], dim=-1).reshape(N_RX, -1)
    return x + math.sqrt(n0) * torch.randn(x.shape, dtype=torch.cfloat, generator=gen)


@torch.no_grad()
def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--slots", type=int, default=12, help="slots per SNR point")
    ap.add_argument("--snr", type=float, nargs="+", default=[8.0, 12.0, 16.0, 20.0])
    args = ap.parse_args()
    gen = torch.Generator().manual_seed(42)
    data_syms = [s for s in range(N_SYM) if s not in PILOT_SYMS]

    grid, pilots, _ = transmit(gen)
    for _ in range(3):
        receive_c(through_channel(grid, 0.1, gen), pilots, torch.tensor(0.1))

    total, calls = 0.0, 0
    for snr in args.snr:
        n0 = 10 ** (-snr / 10)
        errors = count = 0
        evm = 0.0
        for _ in range(args.slots):
            grid, pilots, bits = transmit(gen)
            rx = through_channel(grid, n0, gen)
            t0 = time.perf_counter()
            llr, eq = receive_c(rx, pilots, torch.tensor(n0))
            total += time.perf_counter() - t0
            calls += 1
            hard = (llr < 0)[data_syms]
            errors += (hard != bits[data_syms].bool()).sum().item()
            count += hard.numel()
            evm += (eq - grid)[data_syms].abs().pow(2).mean().item()
        print(
            f"SNR {snr:5.1f} dB  uncoded BER {errors / count:.4f}  EVM {100 * math.sqrt(evm / args.slots):.1f} %"
        )
    print(f"{calls} slots, receiver {1e3 * total / calls:.2f} ms per slot")


if __name__ == "__main__":
    main()
