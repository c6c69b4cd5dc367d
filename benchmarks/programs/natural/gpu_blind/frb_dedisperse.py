"""Search filterbank blocks for fast radio bursts: incoherent dedispersion + boxcar filters."""

import argparse
import math
import os
import time

import numpy as np
import torch

SMOKE = os.environ.get("SMOKE") == "1"
DEV = torch.device("cpu" if SMOKE else "cuda")
F_HI, F_LO = 1.53, 1.28  # GHz
T_SAMP = 256e-6  # s
K_DM = 4.148808e-3  # s GHz^2 / (pc cm^-3)
WIDTHS = (1, 2, 4, 8, 16, 32, 64)


def delay_table(dms, n_chan):
    f = np.linspace(F_HI, F_LO, n_chan)
    d = K_DM * dms[:, None] * (f[None] ** -2 - F_HI**-2) / T_SAMP
    return torch.from_numpy(np.rint(d).astype(np.int64)).to(DEV)


def fake_block(rng, n_chan, n_samp, delays, inject):
    x = 96.0 + 18.0 * rng.standard_normal((n_chan, n_samp), dtype=np.float32)
    gain = rng.uniform(0.7, 1.3, (n_chan, 1)).astype(np.float32)
    x *= gain
    bad = rng.choice(n_chan, max(1, n_chan // 40), replace=False)
    x[bad] += 60 * np.sin(np.arange(n_samp) / 7.0)[None]
    truth = None
    if inject:
        trial = int(rng.integers(len(delays)))
        t0, w = int(rng.integers(n_samp // 8, n_samp // 2)), int(rng.choice([3, 8, 20]))
        for c, d in enumerate(delays[trial].tolist()):
            x[c, t0 + d : t0 + d + w] += 7.0 * gain[c]
        truth = (trial, t0, w)
    return np.clip(x, 0, 255).astype(np.uint8), truth


def prepare(raw):
    """Flatten the band pass, zap noisy channels."""
    x = raw.float()
    mean = x.mean(dim=1, keepdim=True)
    std = x.std(dim=1, keepdim=True)
    x = (x - mean) / std.clamp_min(1e-3)
    med = std.median()
    keep = (std - med).abs() < 1.0 * med
    return x * keep


def search_trials(x, delays, n_out):
    """Dedisperse one group of trials and run the boxcar bank; peak S/N, position per width."""
    n_chan = x.shape[0]
    chan = torch.arange(n_chan, device=x.device)[None, :, None]
    t = torch.arange(n_out, device=x.device)
    idx = delays[:, :, None] + t
    series = x[chan, idx].sum(dim=1)
    series = series - series.mean(dim=1, keepdim=True)
    series = series / series.std(dim=1, keepdim=True)
    cs = torch.nn.functional.pad(torch.cumsum(series, dim=1), (1, 0))
    best, where = [], []
    for w in WIDTHS:
        snr = (cs[:, w:] - cs[:, :-w]) / math.sqrt(w)
        m = snr.max(dim=1)
        best.append(m.values)
        where.append(m.indices)
    return torch.stack(best, 1), torch.stack(where, 1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--blocks", type=int, default=1 if SMOKE else 4)
    ap.add_argument("--chan", type=int, default=32 if SMOKE else 512)
    ap.add_argument("--samples", type=int, default=1024 if SMOKE else 65536)
    ap.add_argument("--trials", type=int, default=12 if SMOKE else 512)
    ap.add_argument("--group", type=int, default=4 if SMOKE else 16)
    ap.add_argument("--dm-max", type=float, default=60.0 if SMOKE else 1200.0)
    ap.add_argument("--threshold", type=float, default=9.0)
    args = ap.parse_args()
    rng = np.random.default_rng(77)
    dms = np.linspace(0, args.dm_max, args.trials)
    delays = delay_table(dms, args.chan)
    n_out = args.samples - int(delays.max())
    n_out -= n_out % 64
    prep = torch.compile(prepare)
    search = torch.compile(search_trials)
    print(f"{args.trials} trials to DM {args.dm_max}, {n_out} output samples of {args.samples}")
    total = 0.0
    for b in range(args.blocks):
        raw, truth = fake_block(rng, args.chan, args.samples, delays.cpu().numpy(), inject=b % 2 == 0)
        t0 = time.perf_counter()
        x = prep(torch.from_numpy(raw).to(DEV))
        peaks, pos = [], []
        for g in range(0, args.trials, args.group):
            p, q = search(x, delays[g : g + args.group], n_out)
            peaks.append(p)
            pos.append(q)
        peaks, pos = torch.cat(peaks), torch.cat(pos)
        flat = int(peaks.argmax())
        tr, wi = divmod(flat, len(WIDTHS))
        snr, at = peaks[tr, wi].item(), pos[tr, wi].item()
        dt = time.perf_counter() - t0
        total += dt
        flag = "CANDIDATE" if snr > args.threshold else "-"
        real_time = args.samples * T_SAMP / dt
        print(
            f"block {b} {dt * 1e3:9.1f} ms ({real_time:6.1f}x real time) best DM {dms[tr]:7.1f} width {WIDTHS[wi]:3d} "
            f"t {at:6d} S/N {snr:6.2f} {flag} truth={truth}",
            flush=True,
        )
        if truth is not None and not SMOKE:
            assert abs(tr - truth[0]) <= 6, "injected burst missed"
    print(f"searched {args.blocks * args.samples * T_SAMP:.1f} s of data in {total:.2f} s")


if __name__ == "__main__":
    main()
