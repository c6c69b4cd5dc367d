"""Fit the drift diffusion model to reaction times of one participant by simulation.

Random dot task, three coherence levels.  The likelihood with across-trial
variability has no closed form that I trust, so I simulate many trials for each
candidate and compare quantiles (as in Ratcliff & Tuerlinckx), and let a
cross-entropy search move the candidates.
"""

import math
import time

import torch

DT = 0.004  # s
SIGMA = 1.0
CHUNK = 16  # steps per call
MAX_T = 2.0  # s, trials that last longer are time-outs
TRIALS = 30_000  # simulated trials per candidate, all coherences together
COHERENCE = torch.tensor([0.064, 0.128, 0.256])
QUANTS = torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9])

# names of theta, in this order
NAMES = ["drift_gain", "boundary", "bias", "non_decision", "drift_sd"]
TRUE = torch.tensor([9.0, 1.35, 0.52, 0.31, 0.45])
LOW = torch.tensor([2.0, 0.7, 0.35, 0.15, 0.0])
HIGH = torch.tensor([16.0, 2.4, 0.65, 0.50, 1.2])


@torch.compile
def advance(x, clock, choice, drift, boundary):
    """CHUNK Euler-Maruyama steps of all trials; finished ones stay where they are.

    choice: 0 undecided, +1 upper boundary (correct), -1 lower boundary (error)
    """
    scale = SIGMA * math.sqrt(DT)
    for _ in range(CHUNK):
        active = choice == 0
        noise = torch.randn_like(x)
        x = torch.where(active, x + drift * DT + scale * noise, x)
        clock = torch.where(active, clock + DT, clock)
        choice = torch.where(active & (x >= boundary), torch.ones_like(choice), choice)
        choice = torch.where(active & (x <= 0), -torch.ones_like(choice), choice)
    return x, clock, choice


def simulate(theta, trials=TRIALS):
    gain, boundary, bias, t0, sd = theta
    coh = COHERENCE.repeat_interleave(trials // len(COHERENCE))
    drift = gain * coh + sd * torch.randn(coh.shape)
    x = (bias * boundary).expand(coh.shape).clone()
    clock = torch.zeros_like(coh)
    choice = torch.zeros_like(coh)
    calls = 0
    for _ in range(int(MAX_T / DT / CHUNK)):
        x, clock, choice = advance(x, clock, choice, drift, boundary)
        calls += 1
        if calls % 8 == 0 and bool((choice != 0).float().mean() > 0.999):
            break
    jitter = 0.02 * torch.rand_like(clock)
    return coh, clock + t0 + jitter, choice, calls


def summary(coh, rt, choice):
    """Accuracy and quantiles of correct and wrong answers, per coherence."""
    rows = []
    for c in COHERENCE:
        sel = coh == c
        good = rt[sel & (choice > 0)]
        bad = rt[sel & (choice < 0)]
        acc = torch.tensor([good.numel() / max(1, good.numel() + bad.numel())])
        q_good = torch.quantile(good, QUANTS) if good.numel() > 10 else torch.full((5,), MAX_T)
        q_bad = torch.quantile(bad, QUANTS[1:4]) if bad.numel() > 10 else torch.full((3,), MAX_T)
        rows.append(torch.cat([4.0 * acc, q_good, 0.5 * q_bad]))
    return torch.stack(rows)


@torch.no_grad()
def main():
    torch.manual_seed(11)
    t_start = time.perf_counter()
    # the "participant": a few thousand trials
    coh, rt, choice, _ = simulate(TRUE, 6000)
    observed = summary(coh, rt, choice)
    print("participant accuracy:", [round(float(a) / 4, 3) for a in observed[:, 0]])

    mean = (LOW + HIGH) / 2
    std = (HIGH - LOW) / 4
    n_cand, n_elite, total_calls, best = 9, 3, 0, (float("inf"), None)
    for generation in range(3):
        cands = mean + std * torch.randn(n_cand, len(mean))
        cands = torch.minimum(torch.maximum(cands, LOW), HIGH)
        losses = []
        for theta in cands:
            coh, rt, choice, calls = simulate(theta)
            total_calls += calls
            losses.append(((summary(coh, rt, choice) - observed) ** 2).sum())
        losses = torch.stack(losses)
        order = losses.argsort()
        elite = cands[order[:n_elite]]
        mean = 0.3 * mean + 0.7 * elite.mean(0)
        std = 0.3 * std + 0.7 * elite.std(0)
        if losses[order[0]] < best[0]:
            best = (float(losses[order[0]]), cands[order[0]].clone())
        print(
            f"generation {generation}: best {losses[order[0]]:.4f}  mean loss {losses.mean():.4f}  "
            f"({time.perf_counter() - t_start:.1f} s)"
        )
    print(f"{total_calls} chunks simulated")
    for name, true, fit in zip(NAMES, TRUE.tolist(), best[1].tolist()):
        print(f"  {name:14s} true {true:6.3f}   fitted {fit:6.3f}")
    assert math.isfinite(best[0])


if __name__ == "__main__":
    main()
