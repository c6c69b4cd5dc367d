"""Permutation tests of independence with the distance correlation (Szekely, Rizzo and Bakirov).

Question: which blocks of soil chemistry are associated with which blocks of a plant trait survey?  For each pair of
blocks the observed bias-corrected statistic is compared with that under random relabellings of the sites.
"""

import torch

torch.manual_seed(29)

SITES = 900
PERMUTATIONS = 192
CHUNK = 4


def survey():
    latent = torch.randn(SITES, 3)
    chemistry = {
        "nutrients": torch.cat([latent[:, :1] ** 2, torch.randn(SITES, 4)], dim=1),
        "salinity": torch.randn(SITES, 3),
    }
    traits = {
        "leaf": torch.cat([latent[:, :1] + 0.7 * torch.randn(SITES, 1), torch.randn(SITES, 2)], dim=1),
        "root": torch.randn(SITES, 4) * (1 + 0.3 * latent[:, 1:2].abs()),
        "flowering": torch.sin(3 * latent[:, 2:3]) + torch.randn(SITES, 1),
    }
    return chemistry, traits


def standardise(x):
    return (x - x.mean(0)) / x.std(0)


@torch.compile
def centred_distances(x):
    """The U-centred matrix of Euclidean distances."""
    n = x.shape[0]
    d = (x[:, None, :] - x[None, :, :]).pow(2).sum(-1).sqrt()
    rows = d.sum(1, keepdim=True) / (n - 2)
    cols = d.sum(0, keepdim=True) / (n - 2)
    grand = d.sum() / ((n - 1) * (n - 2))
    u = d - rows - cols + grand
    return u * (1 - torch.eye(n, dtype=x.dtype))


@torch.compile
def dcov_permuted(a, b, perms):
    """Products of a with b whose rows and columns are relabelled, for each permutation of the chunk."""
    n = a.shape[0]
    shuffled = b[perms[:, :, None], perms[:, None, :]]
    return (a * shuffled).sum(dim=(1, 2)) / (n * (n - 3))


def inner(a, b):
    n = a.shape[0]
    return (a * b).sum() / (n * (n - 3))


def permutation_test(a, b, gen):
    observed = inner(a, b)
    null = []
    for _ in range(PERMUTATIONS // CHUNK):
        perms = torch.stack([torch.randperm(SITES, generator=gen) for _ in range(CHUNK)])
        null.append(dcov_permuted(a, b, perms))
    null = torch.cat(null)
    scale = (inner(a, a) * inner(b, b)).sqrt()
    p = (1 + (null >= observed).sum()) / (1 + len(null))
    return observed / scale, null.std() / scale, p


def main():
    chemistry, traits = survey()
    gen = torch.Generator().manual_seed(1)
    a_of = {k: centred_distances(standardise(v)) for k, v in chemistry.items()}
    b_of = {k: centred_distances(standardise(v)) for k, v in traits.items()}
    print(f"{SITES} sites, {PERMUTATIONS} permutations a pair")
    results = []
    for ka, a in a_of.items():
        for kb, b in b_of.items():
            r, sd, p = permutation_test(a, b, gen)
            results.append((p.item(), ka, kb, r.item(), sd.item()))
    # Holm's adjustment over the pairs
    results.sort()
    running = 0.0
    for i, (p, ka, kb, r, sd) in enumerate(results):
        running = max(running, min(1.0, p * (len(results) - i)))
        print(f"{ka:10s} x {kb:10s}  bcR {r:+.4f}  null sd {sd:.4f}  p {p:.4f}  Holm {running:.4f}")


if __name__ == "__main__":
    main()
