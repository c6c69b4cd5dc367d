"""3D Edwards-Anderson spin glass, +-J couplings, parallel tempering with two replicas.

Measures the spin-overlap Binder ratio per temperature.
"""

import os
import time

import torch

DEVICE = "cpu" if os.environ.get("SMOKE") else "cuda"
SMOKE = DEVICE == "cpu"
L = 8 if SMOKE else 48
TEMPS = 8 if SMOKE else 40
REPLICAS = 2
ROUNDS = 4 if SMOKE else 100
SWEEPS_PER_ROUND = 10


def neighbours_field(s, jx, jy, jz):
    h = jx * torch.roll(s, -1, 2) + torch.roll(jx * s, 1, 2)
    h = h + jy * torch.roll(s, -1, 3) + torch.roll(jy * s, 1, 3)
    h = h + jz * torch.roll(s, -1, 4) + torch.roll(jz * s, 1, 4)
    return h


@torch.compile
def sweep(s, jx, jy, jz, beta, black):
    for colour in (black, ~black):
        h = neighbours_field(s, jx, jy, jz)
        delta = 2.0 * (s * h).float()
        accept = torch.rand(s.shape, device=s.device) < torch.exp(-beta * delta)
        s = torch.where(accept & colour, -s, s)
    return s


@torch.compile
def energy(s, jx, jy, jz):
    e = jx * s * torch.roll(s, -1, 2) + jy * s * torch.roll(s, -1, 3) + jz * s * torch.roll(s, -1, 4)
    return -e.sum((2, 3, 4)).float()


class Tempering:
    def __init__(self, seed=1):
        torch.manual_seed(seed)
        self.temps = torch.linspace(0.7, 1.9, TEMPS)
        self.s = self.pm_one(REPLICAS, TEMPS, L, L, L)
        self.jx, self.jy, self.jz = (self.pm_one(1, 1, L, L, L) for _ in range(3))
        i = torch.arange(L, device=DEVICE)
        self.black = (i[:, None, None] + i[None, :, None] + i[None, None, :]) % 2 == 0
        # slot[r, k]: which temperature walker k of replica r has now
        self.slot = torch.arange(TEMPS, device=DEVICE).repeat(REPLICAS, 1)
        self.beta_table = (1.0 / self.temps).to(DEVICE)
        self.swaps = torch.zeros((), device=DEVICE)

    @staticmethod
    def pm_one(*shape):
        return (torch.randint(0, 2, shape, device=DEVICE) * 2 - 1).to(torch.int8)

    def round(self, parity):
        beta = self.beta_table[self.slot][..., None, None, None]
        for _ in range(SWEEPS_PER_ROUND):
            self.s = sweep(self.s, self.jx, self.jy, self.jz, beta, self.black)
        self.exchange(parity)

    def exchange(self, parity):
        e = energy(self.s, self.jx, self.jy, self.jz)
        walker = self.slot.argsort(1)  # walker at each temperature
        e_at = e.gather(1, walker)
        lo = torch.arange(parity, TEMPS - 1, 2, device=DEVICE)
        hi = lo + 1
        gain = (self.beta_table[lo] - self.beta_table[hi]) * (e_at[:, lo] - e_at[:, hi])
        ok = torch.rand_like(gain) < gain.exp()
        a, b = walker[:, lo], walker[:, hi]
        walker[:, lo] = torch.where(ok, b, a)
        walker[:, hi] = torch.where(ok, a, b)
        self.slot = walker.argsort(1)
        self.swaps += ok.float().mean()

    def overlap(self):
        walker = self.slot.argsort(1)[..., None, None, None].expand_as(self.s)
        at = self.s.gather(1, walker)
        return (at[0] * at[1]).float().mean((1, 2, 3))


def main():
    sim = Tempering()
    q2 = torch.zeros(TEMPS, device=DEVICE)
    q4 = torch.zeros(TEMPS, device=DEVICE)
    count = 0
    start = time.time()
    for r in range(ROUNDS):
        sim.round(r % 2)
        if r >= ROUNDS // 2:
            q = sim.overlap()
            q2 += q**2
            q4 += q**4
            count += 1
    binder = 0.5 * (3 - (q4 / count) / (q2 / count) ** 2)
    spins = ROUNDS * SWEEPS_PER_ROUND * sim.s.numel()
    binder = binder.tolist()
    print(
        f"{spins / (time.time() - start) / 1e9:.2f} spin updates/ns, swap rate {sim.swaps.item() / ROUNDS:.2f}"
    )
    for t, b in list(zip(sim.temps.tolist(), binder))[:: max(1, TEMPS // 8)]:
        print(f"T={t:.2f} g={b:.3f}")


if __name__ == "__main__":
    main()
