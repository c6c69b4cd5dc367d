"""Temporal graph network on a stream of payments: node memories updated by a GRU, attention over the last
neighbours of each account, link prediction (who pays whom next)."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")

N_ACC = 2_000 if SMOKE else 300_000
N_EVENTS = 2_000 if SMOKE else 900_000
BS = 128 if SMOKE else 6000
K = 4 if SMOKE else 12  # neighbours kept per account
MEM = 16 if SMOKE else 128
EDGE = 8


class TimeEncode(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Parameter(1 / 10 ** torch.linspace(0, 6, d))
        self.b = nn.Parameter(torch.zeros(d))

    def forward(self, dt):
        return torch.cos(dt.unsqueeze(-1) * self.w + self.b)


class TGN(nn.Module):
    def __init__(self, n, mem=MEM, td=32, heads=4):
        super().__init__()
        self.heads = heads
        self.time = TimeEncode(td)
        self.gru = nn.GRUCell(2 * mem + EDGE + td, mem)
        self.q = nn.Linear(mem + td, mem)
        self.kv = nn.Linear(mem + EDGE + td, 2 * mem)
        self.merge = nn.Sequential(nn.Linear(2 * mem, mem), nn.ReLU(), nn.Linear(mem, mem))
        self.score = nn.Sequential(nn.Linear(2 * mem, mem), nn.ReLU(), nn.Linear(mem, 1))
        self.register_buffer("memory", torch.zeros(n, mem))
        self.register_buffer("last_t", torch.zeros(n))
        self.register_buffer("nbr", torch.zeros(n, K, dtype=torch.long))
        self.register_buffer("nbr_t", torch.zeros(n, K))
        self.register_buffer("nbr_e", torch.zeros(n, K, EDGE))
        self.register_buffer("count", torch.zeros(n, dtype=torch.long))

    def embed(self, v, t, mem):
        """mem: current memories of v (with gradient); neighbours' memories are read from the table."""
        b = v.shape[0]
        nb, nt, ne = self.nbr[v], self.nbr_t[v], self.nbr_e[v]
        have = torch.arange(K, device=v.device) < self.count[v].unsqueeze(1)
        q = self.q(torch.cat([mem, self.time(torch.zeros_like(t))], -1))
        kv = self.kv(torch.cat([self.memory[nb], ne, self.time(t.unsqueeze(1) - nt)], -1))
        k, val = kv.view(b, K, 2, self.heads, -1).unbind(2)
        att = torch.einsum("bhd,bkhd->bhk", q.view(b, self.heads, -1), k) / k.shape[-1] ** 0.5
        att = att.masked_fill(~have.unsqueeze(1), -1e9).softmax(-1) * have.unsqueeze(1)
        ctx = torch.einsum("bhk,bkhd->bhd", att, val).reshape(b, -1)
        return self.merge(torch.cat([mem, ctx], -1))

    def messages(self, src, dst, t, e):
        """New memories for both ends of each event."""
        both, other = torch.cat([src, dst]), torch.cat([dst, src])
        tt, ee = torch.cat([t, t]), torch.cat([e, e])
        old = self.memory[both]
        msg = torch.cat([old, self.memory[other], ee, self.time(tt - self.last_t[both])], -1)
        return both, other, tt, ee, self.gru(msg, old)

    @torch.no_grad()
    def write(self, both, other, tt, ee, new):
        # only an account's last event of the batch sets its memory
        order = torch.arange(len(both), device=both.device)
        last = torch.full((self.memory.shape[0],), -1, device=both.device, dtype=torch.long)
        last.scatter_reduce_(0, both, order, "amax")
        win = last[both] == order
        cur = self.memory[both]
        self.memory.index_add_(0, both, torch.where(win.unsqueeze(1), new - cur, 0.0))
        self.last_t.scatter_reduce_(0, both, tt, "amax")
        # ring buffer of neighbours; two events of one account in a batch may share a slot, fine
        slot = self.count[both] % K
        self.nbr[both, slot] = other
        self.nbr_t[both, slot] = tt
        self.nbr_e[both, slot] = ee
        self.count.index_add_(0, both, torch.ones_like(both))

    def forward(self, src, dst, neg, t, e):
        both, other, tt, ee, new = self.messages(src, dst, t, e)
        n = src.shape[0]
        mem_neg = self.memory[neg]
        zs = self.embed(src, t, self.memory[src])
        zd = self.embed(dst, t, self.memory[dst])
        zn = self.embed(neg, t, mem_neg)
        pos, ng = self.score(torch.cat([zs, zd], -1)), self.score(torch.cat([zs, zn], -1))
        loss = F.softplus(-pos).mean() + F.softplus(ng).mean()
        # keeps the update cell trained: the fresh memories must tell the partner's too
        aux = 1 - F.cosine_similarity(new[:n], new[n:], dim=-1).mean()
        self.write(both, other, tt, ee, new.detach())
        return loss + 0.1 * aux, pos.detach(), ng.detach()


def payments(seed):
    g = torch.Generator().manual_seed(seed)
    # heavy-tailed activity and communities of 50 accounts
    act = (torch.rand(N_EVENTS, generator=g) ** 3 * N_ACC).long().clamp_max(N_ACC - 1)
    inside = torch.rand(N_EVENTS, generator=g) < 0.8
    near = act // 50 * 50 + torch.randint(50, (N_EVENTS,), generator=g)
    far = torch.randint(N_ACC, (N_EVENTS,), generator=g)
    dst = torch.where(inside, near, far).clamp_max(N_ACC - 1)
    t = torch.rand(N_EVENTS, generator=g).cumsum(0) * 0.01
    e = torch.randn(N_EVENTS, EDGE, generator=g)
    return act, dst, t, e


def auc(pos, neg):
    s = torch.cat([pos, neg]).flatten()
    rank = s.argsort().argsort().double() + 1
    n, m = pos.numel(), neg.numel()
    return ((rank[:n].sum() - n * (n + 1) / 2) / (n * m)).item()


def main():
    torch.manual_seed(17)
    cols = [c.to(dev) for c in payments(4)]
    model = TGN(N_ACC).to(dev)
    step_fn = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=5e-4, fused=dev.type == "cuda")
    n_train = int(N_EVENTS * 0.85) // BS
    log = []
    for i in range(n_train):
        s, d, t, e = (c[i * BS : (i + 1) * BS] for c in cols)
        neg = torch.randint(N_ACC, (BS,), device=dev)
        loss, pos, ng = step_fn(s, d, neg, t, e)
        opt.zero_grad()
        loss.backward()
        opt.step()
        log.append(loss.detach())
    losses = torch.stack(log)
    print(f"train loss first {losses[:5].mean():.4f} last {losses[-5:].mean():.4f} over {n_train} batches")

    model.eval()
    P, Q = [], []
    with torch.no_grad():
        for i in range(n_train, N_EVENTS // BS):
            s, d, t, e = (c[i * BS : (i + 1) * BS] for c in cols)
            neg = torch.randint(N_ACC, (BS,), device=dev)
            _, pos, ng = step_fn(s, d, neg, t, e)
            P.append(pos)
            Q.append(ng)
    print(
        f"test auc {auc(torch.cat(P), torch.cat(Q)):.4f}, memory norm {model.memory.norm():.3f}, "
        f"accounts seen {(model.count > 0).sum().item()}"
    )


if __name__ == "__main__":
    main()
