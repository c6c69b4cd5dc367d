"""Hyperbolic (Lorentz model) embeddings of a taxonomy with sampled-softmax ranking loss."""

import time

import geoopt
import torch
import torch.nn.functional as F

NUM_CONCEPTS = 4000
DIM = 16
NEGATIVES = 50
BATCH = 1024
STEPS = 450
BURN_IN = 40
LR = 0.05

manifold = geoopt.Lorentz(k=torch.tensor(1.0, dtype=torch.float64))


def random_taxonomy(n: int, gen: torch.Generator):
    """Preferential-attachment tree; returns parent indices and the transitive closure pairs."""
    parent = torch.zeros(n, dtype=torch.long)
    for node in range(1, n):
        low = int((torch.rand(1, generator=gen) ** 1.6) * node)
        parent[node] = min(low, node - 1)
    child, ancestor = torch.arange(1, n), parent[1:].clone()
    pairs = []
    while len(child):
        pairs.append(torch.stack([child, ancestor], dim=1))
        alive = ancestor > 0
        child, ancestor = child[alive], parent[ancestor[alive]]
    return parent, torch.cat(pairs)


def initial_points(n: int) -> geoopt.ManifoldParameter:
    tangent = torch.zeros(n, DIM + 1, dtype=torch.float64)
    tangent[:, 1:].uniform_(-1e-2, 1e-2)
    return geoopt.ManifoldParameter(manifold.expmap0(tangent), manifold=manifold)


@torch.compile
def ranking_loss(anchor, positive, negatives, temperature: float):
    """Cross-entropy of picking the true ancestor among sampled concepts."""
    candidates = torch.cat([positive.unsqueeze(1), negatives], dim=1)
    dist = manifold.dist(anchor.unsqueeze(1), candidates)
    logits = -dist / temperature
    depth = manifold.dist0(anchor)
    ancestor_depth = manifold.dist0(positive)
    entail = F.softplus(ancestor_depth - depth)
    nll = torch.logsumexp(logits, dim=1) - logits[:, 0]
    return (nll + 0.05 * entail).mean()


@torch.no_grad()
def mean_rank(points, pairs, sample: int, gen: torch.Generator) -> float:
    pick = pairs[torch.randint(0, len(pairs), (sample,), generator=gen)]
    dist = manifold.dist(points[pick[:, 0]].unsqueeze(1), points.unsqueeze(0))
    dist.scatter_(1, pick[:, :1], float("inf"))
    truth = dist.gather(1, pick[:, 1:])
    return ((dist < truth).sum(1) + 1).double().mean().item()


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(13)
    parent, pairs = random_taxonomy(NUM_CONCEPTS, gen)
    print(
        f"{NUM_CONCEPTS} concepts, {len(pairs)} ancestor pairs, root has {(parent[1:] == 0).sum()} children"
    )

    points = initial_points(NUM_CONCEPTS)
    optimizer = geoopt.optim.RiemannianAdam([points], lr=LR / 5, stabilize=50)
    print(f"initial mean rank {mean_rank(points, pairs, 256, gen):.1f}")

    total, started = 0.0, time.perf_counter()
    for step in range(1, STEPS + 1):
        if step == BURN_IN + 1:
            optimizer.param_groups[0]["lr"] = LR
        batch = pairs[torch.randint(0, len(pairs), (BATCH,), generator=gen)]
        negative_ids = torch.randint(0, NUM_CONCEPTS, (BATCH, NEGATIVES), generator=gen)

        anchor = points[batch[:, 0]]
        positive = points[batch[:, 1]]
        negatives = points[negative_ids]
        loss = ranking_loss(anchor, positive, negatives, 0.5)

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        if step % 75 == 0:
            took = (time.perf_counter() - started) / 75
            print(f"step {step:3d}  loss {total / 75:.4f}  {1e3 * took:.1f} ms/step")
            total, started = 0.0, time.perf_counter()

    print(f"final mean rank {mean_rank(points, pairs, 256, gen):.1f}")
    on_manifold = manifold.check_point_on_manifold(points.data, atol=1e-6)
    print(f"points on hyperboloid: {on_manifold}")


if __name__ == "__main__":
    main()
