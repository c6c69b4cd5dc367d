"""Forward Wright-Fisher simulation of many unlinked loci in a stepping-stone of demes.

Neutral loci and a class of loci under local adaptation: how do F_ST outliers show up after a
bottleneck?  Each generation: migration, selection, mutation, then binomial drift.
"""

import torch

DEMES = 8
LOCI = 40_000
GENERATIONS = 120
MU = 2e-5


def stepping_stone(demes, rate):
    m = torch.zeros(demes, demes)
    for i in range(demes):
        for j in (i - 1, i + 1):
            if 0 <= j < demes:
                m[i, j] = rate / 2
        m[i, i] = 1.0 - m[i].sum()
    return m


def demography():
    """Chromosomes in each deme and generation: the edge demes pass a bottleneck at generation 40 to 60."""
    sizes = torch.full((GENERATIONS, DEMES, 1), 2000.0)
    sizes[40:60, DEMES // 2 :] = 120.0
    growth = torch.linspace(0, 1, 30)[:, None, None]
    sizes[60:90, DEMES // 2 :] = 120.0 * (2000.0 / 120.0) ** growth
    return sizes.round()


@torch.compile
def generation(freq, chromosomes, migration, selection):
    p = migration @ freq
    # genic selection, coefficient differs with deme and locus
    mean_fitness = 1.0 + selection * p
    p = p * (1.0 + selection) / mean_fitness
    # symmetric mutation
    p = p * (1.0 - MU) + (1.0 - p) * MU
    p = p.clamp(0.0, 1.0)
    counts = torch.binomial(chromosomes.expand_as(p).contiguous(), p)
    return counts / chromosomes


@torch.compile
def hudson_fst(freq, chromosomes):
    """Hudson's F_ST of each locus, the ratio of sums over all pairs of demes."""
    pa, pb = freq[:, None], freq[None, :]
    na, nb = chromosomes[:, None], chromosomes[None, :]
    num = (pa - pb) ** 2 - pa * (1 - pa) / (na - 1) - pb * (1 - pb) / (nb - 1)
    den = pa * (1 - pb) + pb * (1 - pa)
    upper = torch.triu(torch.ones(DEMES, DEMES), diagonal=1)[:, :, None]
    num = (num * upper).sum((0, 1))
    den = (den * upper).sum((0, 1))
    return num / den.clamp(min=1e-9)


@torch.compile
def diversity(freq):
    within = (2 * freq * (1 - freq)).mean(1)
    mean = freq.mean(0)
    total = (2 * mean * (1 - mean)).mean()
    segregating = ((mean > 0) & (mean < 1)).float().mean()
    return within, total, segregating


def main():
    torch.manual_seed(42)
    # ancestral frequencies from the neutral spectrum, kept away from fixation
    u = torch.rand(LOCI)
    ancestral = torch.exp(torch.log(torch.tensor(0.02)) * (1 - u)).clamp(0.02, 0.98)
    freq = ancestral.expand(DEMES, LOCI).clone()

    n_sel = LOCI // 100
    cline = torch.linspace(-1, 1, DEMES)[:, None]
    selection = torch.zeros(DEMES, LOCI)
    selection[:, :n_sel] = 0.08 * cline
    migration = stepping_stone(DEMES, 0.05)
    sizes = demography()

    history = []
    for g in range(GENERATIONS):
        freq = generation(freq, sizes[g], migration, selection)
        within, total, seg = diversity(freq)
        history.append((within.mean(), total, seg))
        if g % 20 == 19:
            fst = hudson_fst(freq, sizes[g])
            print(
                f"generation {g + 1:4d}  H_S {within.mean():.4f}  H_T {total:.4f}  segregating {seg:.3f}  "
                f"F_ST neutral {fst[n_sel:].mean():.4f}  selected {fst[:n_sel].mean():.4f}"
            )

    fst = hudson_fst(freq, sizes[-1])
    threshold = fst[n_sel:].quantile(0.99)
    power = (fst[:n_sel] > threshold).float().mean()
    print(f"99 % neutral quantile {threshold:.4f}, power to find selected loci {power:.3f}")
    lowest = min(float(h[0]) for h in history)
    print(f"lowest mean H_S during the bottleneck {lowest:.4f}")


if __name__ == "__main__":
    main()
