"""Bit-error-rate sweep of a regular (3,6) LDPC code with a min-sum decoder.

The all-zero codeword is sent over an AWGN channel with BPSK; blocks of frames
are decoded for a few signal-to-noise ratios.
"""

import math
import time

import torch
from torch import nn


def regular_graph(n=1008, dv=3, dc=6, seed=2):
    """Edges of a random regular Tanner graph without double edges."""
    g = torch.Generator().manual_seed(seed)
    m = n * dv // dc
    sockets = torch.arange(n).repeat_interleave(dv)
    perm = sockets[torch.randperm(n * dv, generator=g)].view(m, dc)
    for _ in range(200):
        s, _ = perm.sort(dim=1)
        bad = (s[:, 1:] == s[:, :-1]).any(dim=1).nonzero().flatten()
        if len(bad) == 0:
            break
        for row in bad.tolist():
            other = int(torch.randint(0, m, (1,), generator=g))
            col = int(torch.randint(0, dc, (1,), generator=g))
            tmp = perm[row, col].item()
            perm[row, col] = perm[other, col]
            perm[other, col] = tmp
    return perm


class MinSumDecoder(nn.Module):
    def __init__(self, check_vars, n, max_iters=20, scale=0.8):
        super().__init__()
        self.max_iters = max_iters
        self.scale = scale
        order = torch.argsort(check_vars.flatten(), stable=True)
        self.register_buffer("check_vars", check_vars)
        self.register_buffer("var_edges", order.view(n, -1))
        self.register_buffer("slots", torch.arange(check_vars.shape[1]))

    def forward(self, llr):
        batch = llr.shape[0]
        m, dc = self.check_vars.shape
        c2v = llr.new_zeros(batch, m, dc)
        total = llr
        iters = 0
        for _ in range(self.max_iters):
            # variable -> check
            v2c = total[:, self.check_vars] - c2v
            mag = v2c.abs()
            neg = v2c < 0

            # check -> variable: smallest magnitude of the other edges
            min1, arg = mag.min(dim=2, keepdim=True)
            is_min = self.slots == arg
            min2 = mag.masked_fill(is_min, math.inf).amin(dim=2, keepdim=True)
            other = torch.where(is_min, min2, min1)
            parity = neg.sum(dim=2, keepdim=True) % 2 == 1
            sign = torch.where(parity ^ neg, -1.0, 1.0)
            c2v = self.scale * sign * other

            # variable totals and parity checks
            total = llr + c2v.view(batch, -1)[:, self.var_edges].sum(dim=2)
            bits = total < 0
            syndrome = bits[:, self.check_vars].sum(dim=2) % 2
            iters += 1
            if not syndrome.any():
                break
        return bits, iters


def channel(batch, n, ebn0_db, rate, g):
    sigma = math.sqrt(1.0 / (2.0 * rate * 10 ** (ebn0_db / 10)))
    y = 1.0 + sigma * torch.randn(batch, n, generator=g)
    return 2.0 * y / sigma**2


@torch.no_grad()
def main():
    torch.manual_seed(0)
    n, batch = 1008, 32
    decoder = MinSumDecoder(regular_graph(n), n)
    decode = torch.compile(decoder)
    g = torch.Generator().manual_seed(4)

    for ebn0 in (3.0, 3.5, 3.0, 3.5):
        decode(channel(batch, n, ebn0, 0.5, g))

    calls, spent = 0, 0.0
    results = []
    for ebn0 in (2.6, 3.0, 3.4, 3.8):
        errors = frames = used = 0
        for _ in range(16):
            llr = channel(batch, n, ebn0, 0.5, g)
            t0 = time.perf_counter()
            bits, iters = decode(llr)
            spent += time.perf_counter() - t0
            calls += 1
            errors += bits.sum().item()
            frames += batch
            used += iters
        results.append((ebn0, errors / (frames * n), used / 16))

    for ebn0, ber, its in results:
        print(f"Eb/N0 {ebn0:.1f} dB  BER {ber:.2e}  mean iterations {its:.1f}")
    raw = (channel(batch, n, 3.8, 0.5, g) < 0).float().mean().item()
    assert results[-1][1] <= results[0][1] + 1e-6 and results[-1][1] < raw / 20
    print(f"uncoded BER at 3.8 dB {raw:.2e}")
    print(f"{spent / calls * 1e3:.2f} ms per call")


if __name__ == "__main__":
    main()
