"""Exam timetabling by simulated annealing with many parallel chains.

Students who sit two exams must not have them in the same slot; exams close together cost the usual
proximity penalty (16, 8, 4, 2, 1 for gaps of 1..5 slots). Every chain proposes moving one exam to
another slot, several proposals per call. The best timetable over all chains is re-scored from scratch.
"""

import time

import numpy as np
import torch

EXAMS = 172
SLOTS = 23
STUDENTS = 2400
CHAINS = 384
MOVES_PER_CALL = 12
CALLS = 700
T_START, T_END = 150.0, 4.0
CLASH = 400.0


def enrolment(seed):
    """Students pick exams mostly within their faculty; returns the symmetric conflict count matrix."""
    rng = np.random.default_rng(seed)
    faculty = rng.integers(0, 12, size=EXAMS)
    popularity = rng.gamma(1.2, 1.0, size=EXAMS)
    conflicts = np.zeros((EXAMS, EXAMS), dtype=np.float32)
    for _ in range(STUDENTS):
        f = rng.integers(0, 12)
        weight = popularity * np.where(faculty == f, 30.0, 0.5)
        chosen = rng.choice(EXAMS, size=rng.integers(3, 7), replace=False, p=weight / weight.sum())
        conflicts[np.ix_(chosen, chosen)] += 1
    np.fill_diagonal(conflicts, 0)
    return torch.from_numpy(conflicts)


def gap_table():
    """Penalty as a function of the absolute slot distance."""
    table = torch.zeros(SLOTS)
    table[0] = CLASH
    table[1:6] = torch.tensor([16.0, 8.0, 4.0, 2.0, 1.0])
    return table


def full_cost(slots, conflicts, table):
    gaps = (slots[:, :, None] - slots[:, None, :]).abs()
    return 0.5 * (table[gaps] * conflicts).sum((1, 2))


class Annealer:
    def __init__(self, conflicts, table):
        self.conflicts = conflicts
        self.table = table
        self.chain = torch.arange(CHAINS)

    def sweep(self, slots, cost, temperature):
        accepted = torch.zeros(CHAINS)
        for _ in range(MOVES_PER_CALL):
            exam = torch.randint(0, EXAMS, (CHAINS,))
            new = torch.randint(0, SLOTS, (CHAINS,))
            old = slots[self.chain, exam]
            row = self.conflicts[exam]
            before = self.table[(slots - old[:, None]).abs()]
            after = self.table[(slots - new[:, None]).abs()]
            delta = (row * (after - before)).sum(1)
            ok = torch.rand(CHAINS) < torch.exp(-delta.clamp(min=0.0) / temperature)
            slots = slots.scatter(1, exam[:, None], torch.where(ok, new, old)[:, None])
            cost = cost + torch.where(ok, delta, torch.zeros_like(delta))
            accepted = accepted + ok.float()
        return slots, cost, accepted.mean() / MOVES_PER_CALL


def greedy_start(conflicts, gen):
    """Largest degree first; each chain breaks ties with its own noise."""
    degree = conflicts.sum(1)
    order = torch.argsort(degree, descending=True).tolist()
    load = torch.zeros(CHAINS, SLOTS, EXAMS)
    slots = torch.zeros(CHAINS, EXAMS, dtype=torch.int64)
    for e in order:
        clash = load @ conflicts[e]
        pick = (clash + 3.0 * torch.rand(clash.shape, generator=gen)).argmin(1)
        slots[:, e] = pick
        load[torch.arange(CHAINS), pick, e] = 1.0
    return slots


def main():
    torch.manual_seed(8)
    conflicts = enrolment(4)
    table = gap_table()
    density = (conflicts > 0).float().mean().item()
    print(f"{EXAMS} exams, {SLOTS} slots, conflict density {density:.3f}, {CHAINS} chains")

    slots = greedy_start(conflicts, torch.Generator().manual_seed(1))
    cost = torch.cat([full_cost(s, conflicts, table) for s in slots.split(64)])
    print(f"greedy start: best {cost.min():.0f}, mean {cost.mean():.0f}")

    annealer = Annealer(conflicts, table)
    sweep = torch.compile(annealer.sweep)
    best_cost, best = cost.min().item(), slots[cost.argmin()].clone()
    ratio = (T_END / T_START) ** (1.0 / (CALLS - 1))
    temperature = T_START
    tic = time.perf_counter()
    for call in range(CALLS):
        slots, cost, acc = sweep(slots, cost, temperature)
        temperature *= ratio
        low, where = cost.min(0)
        if low.item() < best_cost:
            best_cost, best = low.item(), slots[where].clone()
        if (call + 1) % 100 == 0:
            moves = (call + 1) * MOVES_PER_CALL * CHAINS
            print(
                f"T {temperature:7.1f}  accept {acc:.3f}  mean {cost.mean():9.0f}  best {best_cost:9.0f}  "
                f"{moves / (time.perf_counter() - tic) / 1e3:8.1f} k moves/s",
                flush=True,
            )

    check = full_cost(best[None], conflicts, table).item()
    gaps = (best[:, None] - best[None, :]).abs()
    clashes = int(((gaps == 0) & (conflicts > 0)).sum()) // 2
    print(
        f"best timetable: cost {best_cost:.0f} (recomputed {check:.0f}), "
        f"{check / STUDENTS:.2f} per student, {clashes} clashing pairs"
    )
    use = torch.bincount(best, minlength=SLOTS).tolist()
    print("exams per slot: " + " ".join(f"{u:d}" for u in use))
    assert abs(check - best_cost) < 1e-3 * check + 1.0


if __name__ == "__main__":
    main()
