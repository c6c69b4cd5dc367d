"""Arrival-time estimates for planned routes (wide + deep + recurrent), served in
micro-batches from a replayed request log."""

import os
import statistics
import time
from dataclasses import dataclass

import torch
import torch.nn as nn

N_LINKS, N_SLOTS, N_DRIVERS = 30_000, 288, 4_000
N_REQ = int(os.environ.get("N_REQ", "8000"))
WINDOW_S, MAX_BATCH = 0.030, 32


@dataclass
class Request:
    at: float
    links: torch.Tensor  # int64 [L]
    feats: torch.Tensor  # float [L, 4]: length, lanes, free-flow speed, current speed
    slot: int
    weekday: int
    driver: int


def replay_log(n, seed=17):
    g = torch.Generator().manual_seed(seed)
    gaps = -torch.log(torch.rand(n, generator=g).clamp(min=1e-6)) / 520.0
    at = gaps.cumsum(0).tolist()
    lens = (8 + 40 * torch.randn(n, generator=g).mul(0.6).exp()).long().clamp(8, 160).tolist()
    slots = torch.randint(0, N_SLOTS, (n,), generator=g).tolist()
    drivers = torch.randint(0, N_DRIVERS, (n,), generator=g).tolist()
    out = []
    for i, L in enumerate(lens):
        start = int(torch.randint(0, N_LINKS, (1,), generator=g))
        hop = torch.randint(1, 9, (L,), generator=g)
        links = (start + hop.cumsum(0)) % N_LINKS
        out.append(Request(at[i], links, torch.rand(L, 4, generator=g), slots[i], slots[i] % 7, drivers[i]))
    return out


class RouteETA(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.link = nn.Embedding(N_LINKS + 1, 24, padding_idx=N_LINKS)
        self.slot = nn.Embedding(N_SLOTS, 12)
        self.day = nn.Embedding(7, 4)
        self.driver = nn.Embedding(N_DRIVERS, 12)
        self.step_in = nn.Sequential(nn.Linear(24 + 4 + 12, 64), nn.ReLU())
        self.rnn = nn.GRU(64, hidden, batch_first=True)
        self.deep = nn.Sequential(nn.Linear(24 + 4 + 28 + 1, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.wide = nn.Linear(5 + 28, 1)
        self.head = nn.Sequential(nn.Linear(hidden + 64, 64), nn.ReLU(), nn.Linear(64, 3))

    def forward(self, links, feats, lens, slot, day, driver):
        e = self.link(links)
        s = self.slot(slot)
        ctx = torch.cat([s, self.day(day), self.driver(driver)], -1)
        seq = self.step_in(torch.cat([e, feats, s[:, None].expand(-1, links.shape[1], -1)], -1))
        hid, _ = self.rnn(seq)
        last = hid[torch.arange(links.shape[0]), lens - 1]
        mask = (torch.arange(links.shape[1]) < lens[:, None]).unsqueeze(-1)
        pooled = (torch.cat([e, feats], -1) * mask).sum(1)
        n = lens[:, None].float()
        deep = self.deep(torch.cat([pooled / n, ctx, n.log()], -1))
        wide = self.wide(torch.cat([(feats * mask).sum(1), n, ctx], -1))
        base = (feats[..., :1] * mask / (0.2 + feats[..., 3:])).sum(1)
        quant = self.head(torch.cat([last, deep], -1))
        spread = nn.functional.softplus(quant).cumsum(-1)
        return 60.0 * (base + 0.1 * wide) + 10.0 * spread  # p10, p50, p90 seconds


class Service:
    def __init__(self, model):
        self.model = torch.compile(model.eval())

    @staticmethod
    def collate(reqs):
        L = max(r.links.numel() for r in reqs)
        links = torch.full((len(reqs), L), N_LINKS, dtype=torch.long)
        feats = torch.zeros(len(reqs), L, 4)
        for i, r in enumerate(reqs):
            n = r.links.numel()
            links[i, :n] = r.links
            feats[i, :n] = r.feats
        t = lambda k: torch.tensor([getattr(r, k) for r in reqs])
        lens = torch.tensor([r.links.numel() for r in reqs])
        return links, feats, lens, t("slot"), t("weekday"), t("driver")

    @torch.inference_mode()
    def answer(self, reqs):
        return self.model(*self.collate(reqs)).tolist()


def micro_batches(reqs):
    batch = []
    for r in reqs:
        if batch and (r.at - batch[0].at > WINDOW_S or len(batch) == MAX_BATCH):
            yield batch
            batch = []
        batch.append(r)
    if batch:
        yield batch


def main():
    torch.manual_seed(3)
    reqs = replay_log(N_REQ)
    svc = Service(RouteETA())
    svc.answer(reqs[:16])
    svc.answer(reqs[16:40])
    ms, sizes, p50, width = [], [], [], []
    start = time.perf_counter()
    for b in micro_batches(reqs):
        t = time.perf_counter()
        q = svc.answer(b)
        ms.append(1e3 * (time.perf_counter() - t))
        sizes.append(len(b))
        p50 += [row[1] for row in q]
        width += [row[2] - row[0] for row in q]
        if len(ms) % 100 == 0:
            print(
                f"[{sum(sizes):5d} req] last batch {sizes[-1]:2d}  {ms[-1]:6.2f} ms  "
                f"running p50 {statistics.median(ms):.2f} ms"
            )
    total = time.perf_counter() - start
    ms.sort()
    pick = lambda f: ms[min(int(f * len(ms)), len(ms) - 1)]
    assert min(width) > 0
    print(
        f"{len(ms)} batches, mean size {statistics.mean(sizes):.1f}, latency ms p50/p95/p99 "
        f"{pick(0.5):.2f}/{pick(0.95):.2f}/{pick(0.99):.2f}, {len(p50) / total:.0f} req/s, {total:.2f} s"
    )
    print(
        f"ETA median {statistics.median(p50) / 60:.1f} min, mean p10-p90 width {statistics.mean(width):.1f} s"
    )


if __name__ == "__main__":
    main()
