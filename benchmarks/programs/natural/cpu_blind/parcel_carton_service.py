"""Micro-batched scoring service: which of 24 carton types fits an order? Orders are sets of 1 to 70 items of varied size."""

import collections
import random
import time

import torch
import torch.nn as nn

random.seed(1)
torch.manual_seed(1)

N_CATEGORIES = 300
N_CARTONS = 24
MAX_BATCH = 32
DIM, HEADS = 256, 4

Order = collections.namedtuple("Order", "oid dims weight category fragile")


def make_order(oid):
    n = min(70, 1 + int(random.expovariate(1 / 18.0)))
    dims = torch.rand(n, 3) * 0.28 + 0.02
    return Order(
        oid,
        dims,
        dims.prod(1) * 400 * torch.rand(n) + 0.05,
        torch.randint(N_CATEGORIES, (n,)),
        torch.rand(n) < 0.03,
    )


def segment_softmax(x, seg, n):
    idx = seg[:, None].expand_as(x)
    m = torch.full((n, x.shape[1]), -torch.inf).scatter_reduce(0, idx, x, "amax")
    e = torch.exp(x - m[seg])
    s = torch.zeros(n, x.shape[1]).index_add(0, seg, e)
    return e / s[seg]


class CartonScorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.cat = nn.Embedding(N_CATEGORIES, 24)
        self.item = nn.Sequential(
            nn.Linear(24 + 9, DIM),
            nn.GELU(),
            nn.LayerNorm(DIM),
            nn.Linear(DIM, DIM),
            nn.GELU(),
            nn.LayerNorm(DIM),
        )
        self.score = nn.Linear(DIM, HEADS)
        self.value = nn.Linear(DIM, DIM)
        self.head = nn.Sequential(nn.Linear(2 * DIM + 3, DIM), nn.GELU(), nn.Linear(DIM, N_CARTONS))
        side = torch.linspace(0.15, 0.9, N_CARTONS)
        self.register_buffer("carton_volume", side**3)
        self.register_buffer("carton_side", side * 1.2)

    def forward(self, dims, weight, category, fragile, counts):
        n_orders = counts.shape[0]
        seg = torch.repeat_interleave(torch.arange(n_orders), counts)
        sorted_dims = dims.sort(dim=1, descending=True).values
        volume = dims.prod(1)
        feats = torch.cat(
            [
                sorted_dims,
                sorted_dims.log(),
                volume[:, None].log(),
                weight[:, None].log1p(),
                fragile[:, None].float(),
                self.cat(category),
            ],
            1,
        )
        h = self.item(feats)

        w = segment_softmax(self.score(h), seg, n_orders)
        v = self.value(h).view(-1, HEADS, DIM // HEADS) * w[..., None]
        pooled = torch.zeros(n_orders, DIM).index_add(0, seg, v.flatten(1))
        largest = torch.full((n_orders, DIM), -torch.inf).scatter_reduce(
            0, seg[:, None].expand_as(h), h, "amax"
        )

        total_v = torch.zeros(n_orders).index_add(0, seg, volume)
        total_w = torch.zeros(n_orders).index_add(0, seg, weight)
        longest = torch.zeros(n_orders).scatter_reduce(0, seg, sorted_dims[:, 0], "amax")
        ctx = torch.stack([total_v.log(), total_w.log1p(), longest], 1)
        logits = self.head(torch.cat([pooled, largest, ctx], 1))

        need = total_v * 1.25
        if fragile.any():
            has_fragile = torch.zeros(n_orders).index_add(0, seg, fragile.float()) > 0
            need = torch.where(has_fragile, need * 1.3, need)
        fits = (need[:, None] <= self.carton_volume) & (longest[:, None] <= self.carton_side)
        logits = logits.masked_fill(~fits, -torch.inf)
        no_fit = ~fits.any(1)
        return torch.softmax(logits, 1).masked_fill(no_fit[:, None], 0.0), no_fit


class Service:
    def __init__(self, model):
        self.model = torch.compile(model.eval())
        self.queue = collections.deque()
        self.answers = {}
        self.latency = []

    def submit(self, order):
        self.queue.append((time.perf_counter(), order))

    @torch.inference_mode()
    def flush(self):
        take = [self.queue.popleft() for _ in range(min(MAX_BATCH, len(self.queue)))]
        orders = [o for _, o in take]
        counts = torch.tensor([len(o.weight) for o in orders])
        probs, no_fit = self.model(
            torch.cat([o.dims for o in orders]),
            torch.cat([o.weight for o in orders]),
            torch.cat([o.category for o in orders]),
            torch.cat([o.fragile for o in orders]),
            counts,
        )
        best = probs.argmax(1)
        best[no_fit] = -1
        now = time.perf_counter()
        for (t, o), b in zip(take, best.tolist()):
            self.answers[o.oid] = b
            self.latency.append(now - t)


def main():
    service = Service(CartonScorer())
    oid = 0
    for tick in range(600):
        for _ in range(random.randint(4, 44)):
            service.submit(make_order(oid))
            oid += 1
        while service.queue:
            service.flush()
    split = sum(v == -1 for v in service.answers.values())
    used = collections.Counter(service.answers.values())
    lat = torch.tensor(service.latency) * 1e3
    print(f"{oid} orders answered, {split} must be split, {len(used)} carton types used")
    print("most common cartons", used.most_common(4))
    print(f"latency p50 {lat.quantile(0.5):.2f} ms, p95 {lat.quantile(0.95):.2f} ms")


if __name__ == "__main__":
    main()
