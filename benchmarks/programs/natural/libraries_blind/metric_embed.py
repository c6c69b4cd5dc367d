"""Embedding training with pytorch-metric-learning: mined triplets on synthetic features."""

import time

import torch
from pytorch_metric_learning import distances, losses, miners, reducers
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(2)

CLASSES, DIM_IN, DIM_OUT = 40, 256, 64
CLASSES_PER_BATCH, PER_CLASS = 24, 4
WARMUP, STEPS = 10, 30


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(DIM_IN, 512),
            nn.BatchNorm1d(512),
            nn.GELU(),
            nn.Linear(512, 512),
            nn.BatchNorm1d(512),
            nn.GELU(),
        )
        self.head = nn.Linear(512, DIM_OUT)

    def forward(self, x):
        return self.head(self.trunk(x))


centres = torch.randn(CLASSES, DIM_IN)
mix = torch.randn(DIM_IN, DIM_IN) / DIM_IN**0.5


def sample(labels, gen):
    x = centres[labels] + 2.0 * torch.randn(len(labels), DIM_IN, generator=gen)
    return torch.tanh(x @ mix)


def sampler(gen):
    while True:
        cls = torch.randperm(CLASSES, generator=gen)[:CLASSES_PER_BATCH]
        labels = cls.repeat_interleave(PER_CLASS)
        yield sample(labels, gen), labels


model = Embedder().train()
distance = distances.CosineSimilarity()
miner = miners.TripletMarginMiner(margin=0.2, distance=distance, type_of_triplets="semihard")
criterion = losses.TripletMarginLoss(margin=0.2, distance=distance, reducer=reducers.AvgNonZeroReducer())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


@torch.compile
def train_step(x, labels):
    embeddings = model(x)
    hard = miner(embeddings, labels)
    loss = criterion(embeddings, labels, hard)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def main():
    data = sampler(torch.Generator().manual_seed(5))
    begin = time.perf_counter()
    for _ in range(WARMUP):
        train_step(*next(data))
    print(f"warm-up took {time.perf_counter() - begin:.1f} s")
    seen = []
    for step in range(STEPS):
        x, labels = next(data)
        t = time.perf_counter()
        loss = train_step(x, labels)
        seen.append((time.perf_counter() - t) * 1e3)
        if step % 10 == 9:
            print(f"step {step + 1:3d} loss {loss.item():.4f} mined {miner.num_triplets}")
    print(f"time per step {sum(seen) / len(seen):.2f} ms")

    model.eval()
    gen = torch.Generator().manual_seed(6)
    labels = torch.arange(CLASSES).repeat_interleave(8)
    with torch.no_grad():
        emb = nn.functional.normalize(model(sample(labels, gen)), dim=-1)
    sim = emb @ emb.T
    sim.fill_diagonal_(-1)
    print(f"precision@1 {(labels[sim.argmax(1)] == labels).float().mean().item():.3f}")


if __name__ == "__main__":
    main()
