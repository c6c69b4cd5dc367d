"""Late-interaction re-ranking of candidate passages for a stream of legal queries."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

HIDDEN = 768
DIM = 128
Q_LEN = 32
CANDIDATES = max(16, int(400 * SCALE))
MIN_LEN, MAX_LEN = 96, 300
QUERIES = 50
TOP = 10


class LateInteraction(nn.Module):
    """Project contextual token states and score query/passage pairs by MaxSim."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.proj = nn.Linear(HIDDEN, DIM, bias=False)
        self.weight = nn.Linear(HIDDEN, 1)

    def encode(self, h):
        return F.normalize(self.proj(self.norm(h)).float(), dim=-1).to(h.dtype)

    def forward(self, q_hidden, d_hidden, d_mask):
        q = self.encode(q_hidden)
        d = self.encode(d_hidden)
        importance = torch.softmax(self.weight(q_hidden).float().squeeze(-1), dim=-1)
        sim = torch.matmul(d, q.t()).float()
        sim = sim.masked_fill(~d_mask.unsqueeze(-1), -1e4)
        best = sim.amax(dim=1)
        return (best * importance).sum(dim=-1)


class PassageCache:
    """Token states of passages, stored once and cut to the longest in a request."""

    def __init__(self, n, gen, dtype):
        self.states = torch.randn(n, MAX_LEN, HIDDEN, device=DEVICE, dtype=dtype)
        self.lengths = torch.randint(MIN_LEN // 2, MAX_LEN + 1, (n,), generator=gen)
        self.gen = gen

    def candidates(self, k):
        longest = int(torch.randint(MIN_LEN, MAX_LEN + 1, (1,), generator=self.gen))
        ids = torch.randperm(self.states.shape[0], generator=self.gen)[:k]
        lens = self.lengths[ids].clamp(max=longest)
        mask = torch.arange(longest)[None, :] < lens[:, None]
        ids = ids.to(DEVICE)
        return ids, self.states[ids, :longest], mask.to(DEVICE)


def main():
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(22)
    dtype = torch.bfloat16
    model = LateInteraction().to(DEVICE, dtype).eval()
    score = torch.compile(model, dynamic=True)
    cache = PassageCache(CANDIDATES * 3, gen, dtype)

    requests = []
    for _ in range(6):
        q = torch.randn(Q_LEN, HIDDEN, device=DEVICE, dtype=dtype)
        requests.append((q,) + cache.candidates(CANDIDATES))

    rankings = []
    with torch.inference_mode():
        for i in range(QUERIES):
            if i == 10:
                if DEVICE == "cuda":
                    torch.cuda.synchronize()
                t0 = time.perf_counter()
            q, ids, states, mask = requests[i % len(requests)]
            s = score(q, states, mask)
            top = s.topk(TOP)
            rankings.append((ids[top.indices], top.values))
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    ms = (time.perf_counter() - t0) / (QUERIES - 10) * 1e3
    checksum = sum(int(r[0].sum()) for r in rankings)
    mean = torch.stack([r[1].mean() for r in rankings]).mean().item()
    print(f"{ms:.3f} ms per query over {CANDIDATES} passages; ids {checksum}, top score {mean:.5f}")


if __name__ == "__main__":
    main()
