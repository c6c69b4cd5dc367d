"""Economic capital of a loan book: Monte Carlo over a multi-factor Gaussian
copula with stochastic recoveries, and tail contributions by sector."""

import math
import time

import torch

torch.manual_seed(31337)

LOANS = 400
FACTORS = 8
SECTORS = 10
BATCH = 6000
BATCHES = 500


class Book:
    def __init__(self):
        g = torch.Generator().manual_seed(5)
        self.sector = torch.randint(0, SECTORS, (LOANS,), generator=g)
        self.exposure = torch.exp(0.8 * torch.randn(LOANS, generator=g))
        self.exposure /= self.exposure.sum()
        self.pd = 0.002 + 0.03 * torch.rand(LOANS, generator=g) ** 2
        sector_load = torch.randn(SECTORS, FACTORS, generator=g)
        sector_load /= sector_load.norm(dim=1, keepdim=True)
        rho = 0.08 + 0.2 * torch.rand(LOANS, generator=g)
        self.loadings = sector_load[self.sector] * rho.sqrt()[:, None]
        self.idio = (1 - rho).sqrt()
        self.barrier = torch.special.ndtri(self.pd)
        self.mean_lgd = 0.3 + 0.4 * torch.rand(LOANS, generator=g)
        self.sector_onehot = torch.nn.functional.one_hot(self.sector, SECTORS).float()


def simulate(book_loadings, idio, barrier, exposure, mean_lgd, onehot):
    systematic = torch.randn(BATCH, FACTORS)
    common = systematic @ book_loadings.T
    asset = common + idio * torch.randn(BATCH, LOANS)
    default = (asset < barrier).float()
    # recoveries fall in a bad state of the economy
    market = 0.5 * common + math.sqrt(0.75) * torch.randn(BATCH, LOANS)
    logit = torch.log(mean_lgd / (1 - mean_lgd)) - 0.8 * market
    lgd = torch.sigmoid(logit)
    loss = default * lgd * exposure
    by_sector = loss @ onehot
    total = loss.sum(dim=1)
    # mark-to-market migration loss of the loans that survive
    distance = (asset - barrier) * (1 - default)
    spread = 0.02 * torch.exp(-distance.clamp(min=0.0)) * (1 - default)
    migration = (spread * exposure).sum(dim=1)
    return total + migration, by_sector


simulate_fast = torch.compile(simulate)


def tail_statistics(losses, sectors, level):
    var = torch.quantile(losses[:1_000_000], level)
    tail = losses >= var
    return var.item(), losses[tail].mean().item(), sectors[tail].mean(dim=0)


def main():
    book = Book()
    losses, sectors = [], []
    start = time.time()
    with torch.no_grad():
        for b in range(BATCHES):
            total, by_sector = simulate_fast(
                book.loadings,
                book.idio,
                book.barrier,
                book.exposure,
                book.mean_lgd,
                book.sector_onehot,
            )
            losses.append(total)
            sectors.append(by_sector)
            if (b + 1) % 125 == 0:
                so_far = torch.cat(losses)
                err = so_far.std() / math.sqrt(len(so_far))
                print(f"{len(so_far):8d} scenarios: expected loss {so_far.mean():.5f} +- {err:.5f}")
    elapsed = time.time() - start

    losses = torch.cat(losses)
    sectors = torch.cat(sectors)
    print(f"simulated {len(losses)} scenarios in {elapsed:.1f} s ({1e3 * elapsed / BATCHES:.1f} ms a batch)")
    for level in (0.95, 0.99, 0.999):
        var, es, contrib = tail_statistics(losses, sectors, level)
        share = contrib / contrib.sum()
        worst = int(share.argmax())
        print(
            f"{100 * level:.1f}%: VaR {var:.4f}  ES {es:.4f}  "
            f"largest sector {worst} ({100 * share[worst]:.0f}% of tail)"
        )


if __name__ == "__main__":
    main()
