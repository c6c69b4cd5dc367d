"""Frame error rate of a regular (3,6) LDPC code with normalised min-sum decoding
over a BPSK/AWGN channel."""

import argparse
import time

import numpy as np
import torch
import torch.nn as nn


def gallager_edges(n, dv, dc, seed=3):
    """Random regular Tanner graph: returns (m, dc) variable index of each edge."""
    rng = np.random.default_rng(seed)
    m = n * dv // dc
    sockets = np.repeat(np.arange(n), dv)
    for _ in range(50):
        rng.shuffle(sockets)
        nbr = np.sort(sockets.reshape(m, dc), axis=1)
        if not (nbr[:, 1:] == nbr[:, :-1]).any():
            break
    # repair the remaining double edges by swapping with random checks
    bad = True
    while bad:
        bad = False
        for c in range(m):
            row = nbr[c]
            u, cnt = np.unique(row, return_counts=True)
            if (cnt > 1).any():
                bad = True
                k = int(np.where(row == u[cnt > 1][0])[0][0])
                o, j = rng.integers(m), rng.integers(dc)
                nbr[c, k], nbr[o, j] = nbr[o, j], nbr[c, k]
    return torch.from_numpy(nbr.copy())


class MinSumDecoder(nn.Module):
    def __init__(self, edges, n, iters=10, alpha=0.8):
        super().__init__()
        self.n, self.iters, self.alpha = n, iters, alpha
        self.m, self.dc = edges.shape
        self.register_buffer("edges", edges)
        self.register_buffer("flat", edges.reshape(-1))

    def check_update(self, v2c):
        mag = v2c.abs()
        two, arg = torch.topk(mag, 2, dim=-1, largest=False)
        slot = torch.arange(self.dc, device=v2c.device)
        ext = torch.where(slot == arg[..., :1], two[..., 1:], two[..., :1])
        sgn = torch.where(v2c < 0, -1.0, 1.0)
        total_sign = torch.prod(sgn, dim=-1, keepdim=True)
        return self.alpha * total_sign * sgn * ext

    def forward(self, llr):
        b = llr.shape[0]
        c2v = llr.new_zeros(b, self.m, self.dc)
        post = llr
        for _ in range(self.iters):
            v2c = post[:, self.edges] - c2v
            c2v = self.check_update(v2c)
            post = llr.index_add(1, self.flat, c2v.reshape(b, -1))
        bits = post < 0
        parity = bits[:, self.edges].sum(-1) % 2
        return bits, (parity == 0).all(dim=1)


def channel(batch, n, ebn0_db, rate, gen):
    sigma = (2 * rate * 10 ** (ebn0_db / 10)) ** -0.5
    y = 1.0 + sigma * torch.randn(batch, n, generator=gen)
    return 2 * y / sigma**2


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--n", type=int, default=1200)
    ap.add_argument("--batch", type=int, default=48)
    ap.add_argument("--batches", type=int, default=8)
    args = ap.parse_args()

    torch.set_num_threads(2)
    gen = torch.Generator().manual_seed(11)
    edges = gallager_edges(args.n, 3, 6)
    decoder = torch.compile(MinSumDecoder(edges, args.n).eval())

    with torch.inference_mode():
        for _ in range(2):
            decoder(channel(args.batch, args.n, 2.0, 0.5, gen))

        for ebn0 in (1.5, 2.0, 2.5):
            frames = bit_err = frame_err = converged = 0
            spent = 0.0
            for _ in range(args.batches):
                llr = channel(args.batch, args.n, ebn0, 0.5, gen)
                t = time.perf_counter()
                bits, ok = decoder(llr)
                spent += time.perf_counter() - t
                frames += args.batch
                bit_err += int(bits.sum())
                frame_err += int(bits.any(1).sum())
                converged += int(ok.sum())
            print(
                f"Eb/N0 {ebn0:.1f} dB  BER {bit_err / frames / args.n:.2e}  "
                f"FER {frame_err / frames:.3f}  converged {converged / frames:.3f}  "
                f"{1e3 * spent / args.batches:.1f} ms/batch"
            )


if __name__ == "__main__":
    main()
