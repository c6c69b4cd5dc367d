"""Independent cascade on a large follower graph: which seed set reaches most accounts?

The graph is in CSR form.  Many replicas of a cascade run together as a frontier of (replica, node) ids;
a step expands the frontier over its edges, tosses a coin per edge and keeps those newly reached.
"""

import time

import torch

torch.manual_seed(21)
device = "cuda"

NODES = 1_000_000
MEAN_DEGREE = 14
REPLICAS = 64
SEED_SETS = 24
SEEDS = 50
MAX_ROUNDS = 40


def follower_graph():
    """Heavy-tailed out degrees, targets drawn in proportion to a popularity."""
    u = torch.rand(NODES, device=device)
    degree = (MEAN_DEGREE / 2.2 * u.clamp(min=1e-4).pow(-0.5)).long().clamp(1, 400)
    indptr = torch.zeros(NODES + 1, dtype=torch.long, device=device)
    indptr[1:] = degree.cumsum(0)
    edges = int(indptr[-1])
    popularity = torch.rand(edges, device=device).pow(2.0)
    indices = (popularity * NODES).long().clamp(max=NODES - 1)
    shuffle = torch.randperm(NODES, device=device)
    indices = shuffle[indices]
    in_degree = torch.bincount(indices, minlength=NODES).float()
    probability = (1.3 / in_degree[indices].clamp(min=1.0)).clamp(max=0.25)
    return indptr, indices, probability, degree


@torch.compile
def spread(frontier, active, indptr, indices, probability):
    node = frontier % NODES
    replica = frontier // NODES
    first = indptr[node]
    degree = indptr[node + 1] - first

    # one entry for each edge that leaves the frontier
    owner = torch.repeat_interleave(torch.arange(frontier.shape[0], device=frontier.device), degree)
    before = degree.cumsum(0) - degree
    position = torch.arange(owner.shape[0], device=frontier.device) - before[owner]
    edge = first[owner] + position

    toss = torch.rand(edge.shape[0], device=frontier.device)
    target = replica[owner] * NODES + indices[edge]
    hit = (toss < probability[edge]) & ~active[target]
    reached = torch.unique(target[hit])
    active[reached] = True
    return reached


def simulate(seeds, graph):
    indptr, indices, probability, _ = graph
    active = torch.zeros(REPLICAS * NODES, dtype=torch.bool, device=device)
    offset = torch.arange(REPLICAS, device=device)[:, None] * NODES
    frontier = (offset + seeds[None, :]).reshape(-1)
    active[frontier] = True
    rounds = 0
    while frontier.numel() > 0 and rounds < MAX_ROUNDS:
        frontier = spread(frontier, active, indptr, indices, probability)
        rounds += 1
    reach = active.view(REPLICAS, NODES).sum(1).float()
    return reach.mean().item(), reach.std().item(), rounds


def candidate_sets(degree):
    """Half of the sets are of well connected accounts, the rest random."""
    top = degree.topk(SEEDS * SEED_SETS).indices
    sets = []
    for k in range(SEED_SETS):
        if k % 2 == 0:
            pick = torch.randperm(len(top), device=device)[:SEEDS]
            sets.append(top[pick])
        else:
            sets.append(torch.randperm(NODES, device=device)[:SEEDS])
    return sets


def main():
    graph = follower_graph()
    print(f"{NODES} accounts, {len(graph[1])} edges, largest out degree {int(graph[3].max())}")
    start = time.perf_counter()
    results = []
    for k, seeds in enumerate(candidate_sets(graph[3])):
        reach, spread_of_reach, rounds = simulate(seeds, graph)
        results.append(reach)
        if k < 4:
            print(f"set {k}: reach {reach:.0f} +- {spread_of_reach:.0f} in {rounds} rounds")
    best = max(range(len(results)), key=results.__getitem__)
    print(
        f"best set {best} reaches {results[best]:.0f}; mean of hubs {sum(results[::2]) / len(results[::2]):.0f}, "
        f"mean of random {sum(results[1::2]) / len(results[1::2]):.0f}"
    )
    print(f"{time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
