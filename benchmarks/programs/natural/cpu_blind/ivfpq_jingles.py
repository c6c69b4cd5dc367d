"""Approximate nearest neighbours for jingle recognition: IVF-PQ index with half-precision re-ranking."""

import torch

DIM, LISTS, M, KSUB = 96, 256, 12, 256
DSUB = DIM // M


def kmeans(x, k, iters=8):
    c = x[torch.randperm(len(x))[:k]].clone()
    for _ in range(iters):
        a = torch.cdist(x, c).argmin(1)
        s = torch.zeros_like(c).index_add_(0, a, x)
        n = torch.bincount(a, minlength=k).float()
        c = torch.where(n[:, None] > 0, s / n.clamp(min=1)[:, None], c)
    return c


class IVFPQ:
    def __init__(self, xb):
        train = xb[torch.randperm(len(xb))[:12000]]
        self.coarse = kmeans(train, LISTS)
        res = train - self.coarse[torch.cdist(train, self.coarse).argmin(1)]
        self.books = torch.stack([kmeans(r[:6000].contiguous(), KSUB, 5) for r in res.split(DSUB, 1)])
        self._add(xb)

    def _add(self, xb):
        owner = torch.cat([torch.cdist(b, self.coarse).argmin(1) for b in xb.split(8192)])
        res = xb - self.coarse[owner]
        codes = torch.stack([torch.cdist(r, b).argmin(1) for r, b in zip(res.split(DSUB, 1), self.books)], 1)
        order = owner.argsort(stable=True)
        count = torch.bincount(owner, minlength=LISTS)
        start = count.cumsum(0) - count
        cap = int(count.max())
        slot = torch.arange(len(xb)) - start[owner[order]]
        self.ids = torch.full((LISTS, cap), -1)
        self.ids[owner[order], slot] = order
        self.codes = torch.zeros(LISTS, cap, M, dtype=torch.uint8)
        self.codes[owner[order], slot] = codes[order].to(torch.uint8)
        self.raw = xb.half()

    def search(self, q, k, nprobe, refine=8):
        nq = q.shape[0]
        d = q.square().sum(1, keepdim=True) - 2 * q @ self.coarse.T + self.coarse.square().sum(1)
        probe = d.topk(nprobe, largest=False).indices
        r = (q[:, None] - self.coarse[probe]).view(nq, nprobe, M, DSUB)
        # distance tables for each probed list and sub-quantiser
        lut = (
            r.square().sum(-1, keepdim=True)
            - 2 * torch.einsum("qpmd,mkd->qpmk", r, self.books)
            + self.books.square().sum(-1)
        )
        code = self.codes[probe].long()  # q p cap M
        dist = lut.gather(3, code.transpose(2, 3)).sum(2)  # q p cap
        ids = self.ids[probe]
        dist = dist.masked_fill(ids < 0, float("inf")).flatten(1)
        short = dist.topk(k * refine, largest=False).indices
        cand = ids.flatten(1).gather(1, short)
        exact = (self.raw[cand].float() - q[:, None]).square().sum(-1)
        exact = exact.masked_fill(cand < 0, float("inf"))
        best = exact.topk(k, largest=False)
        return best.values, cand.gather(1, best.indices)


def fingerprints(n, gen):
    basis = torch.randn(400, DIM, generator=gen)
    which = torch.randint(400, (n,), generator=gen)
    x = basis[which] + 0.6 * torch.randn(n, DIM, generator=gen)
    return x / x.norm(dim=1, keepdim=True)


def vote(ids, clip_of):
    """Majority of clips over the windows of one recording."""
    c = clip_of[ids[:, :3]].flatten()
    u, n = torch.unique(c, return_counts=True)
    return u[n.argmax()].item(), n.max().item()


def main():
    torch.manual_seed(17)
    gen = torch.Generator().manual_seed(17)
    xb = fingerprints(40000, gen)
    clip_of = torch.arange(len(xb)) // 50  # 50 windows per jingle
    index = IVFPQ(xb)
    print("lists", LISTS, "longest", index.ids.shape[1], "mean", len(xb) / LISTS)

    search = torch.compile(index.search, dynamic=True)

    correct, recall, votes, asked = 0, 0.0, 0, 0
    with torch.no_grad():
        for _ in range(120):
            clip = int(torch.randint(800, (1,), generator=gen))
            n = int(torch.randint(12, 41, (1,), generator=gen))
            rows = clip * 50 + torch.randperm(50, generator=gen)[:n]
            q = xb[rows] + 0.14 * torch.randn(n, DIM, generator=gen)
            d, ids = search(q, 10, 8)
            recall += (ids == rows[:, None]).any(1).float().mean().item()
            got, v = vote(ids, clip_of)
            correct += got == clip
            votes += v / n
            asked += 1
    print(
        f"clip accuracy {correct / asked:.3f}  window recall@10 {recall / asked:.3f}  votes/window {votes / asked:.3f}"
    )

    # the same with more lists probed, for the report
    with torch.no_grad():
        for nprobe in (1, 4, 16):
            rows = torch.randperm(len(xb), generator=gen)[:32]
            q = xb[rows] + 0.14 * torch.randn(32, DIM, generator=gen)
            d, ids = search(q, 10, nprobe)
            print(
                f"nprobe {nprobe:2d}: recall@10 {(ids == rows[:, None]).any(1).float().mean():.3f} mean d2 {d.mean():.4f}"
            )


if __name__ == "__main__":
    main()
