"""Job-shop schedules decoded with a learned dispatching policy (best of several sampled roll-outs).

A small attention network over the jobs looks at the shop's present state and gives the next job to dispatch.  It is
warm-started by imitating the most-work-remaining rule, then decodes benchmark-like instances of several sizes; the
makespans are compared with the classical rules SPT and MWKR.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(15)

SIZES = [(10, 10), (15, 10), (20, 8)]
INSTANCES, SAMPLES = 16, 8


def taillard_like(n, jobs, machines):
    dur = torch.randint(1, 100, (n, jobs, machines)).float()
    route = torch.rand(n, jobs, machines).argsort(-1)
    return dur, route


class Shop:
    """State of a batch of job shops; one call of `dispatch` schedules one operation in each."""

    def __init__(self, dur, route):
        self.dur, self.route = dur, route
        b, j, m = dur.shape
        self.next_op = torch.zeros(b, j, dtype=torch.long)
        self.job_free = torch.zeros(b, j)
        self.mach_free = torch.zeros(b, m)
        self.left = dur.sum(-1)

    def done(self):
        return self.next_op >= self.dur.shape[2]

    def current(self):
        idx = self.next_op.clamp(max=self.dur.shape[2] - 1).unsqueeze(-1)
        return self.route.gather(2, idx).squeeze(-1), self.dur.gather(2, idx).squeeze(-1)

    def features(self):
        mach, d = self.current()
        avail = self.mach_free.gather(1, mach)
        start = torch.maximum(avail, self.job_free)
        now = torch.where(self.done(), torch.full_like(start, 1e9), start).amin(1, keepdim=True)
        same = (mach.unsqueeze(1) == mach.unsqueeze(2)) & ~self.done().unsqueeze(1)
        return torch.stack(
            [
                d / 100,
                self.left / 1000,
                self.next_op / self.dur.shape[2],
                (start - now) / 100,
                (avail - self.job_free) / 100,
                same.sum(-1) / self.dur.shape[1],
                ((start + self.left) - (start + self.left).amax(1, keepdim=True)) / 1000,
            ],
            -1,
        ).clamp(-5, 5)

    def dispatch(self, job):
        j = job.unsqueeze(1)
        mach, d = self.current()
        mach, d = mach.gather(1, j), d.gather(1, j)
        start = torch.maximum(self.mach_free.gather(1, mach), self.job_free.gather(1, j))
        self.mach_free.scatter_(1, mach, start + d)
        self.job_free.scatter_(1, j, start + d)
        self.left.scatter_add_(1, j, -d)
        self.next_op.scatter_add_(1, j, torch.ones_like(j))

    def makespan(self):
        return self.job_free.amax(1)


class Policy(nn.Module):
    def __init__(self, dim=64, layers=3):
        super().__init__()
        self.embed = nn.Linear(7, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.score = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, feats, done):
        h = self.encoder(self.embed(feats), src_key_padding_mask=done)
        live = (~done).unsqueeze(-1).float()
        pooled = (h * live).sum(1, keepdim=True) / live.sum(1, keepdim=True).clamp(min=1)
        logits = self.score(torch.cat([h, pooled.expand_as(h)], -1)).squeeze(-1)
        return logits.masked_fill(done, float("-inf"))


def imitate(policy, steps=60):
    opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
    shop, i, span = None, 0, 0
    for _ in range(steps):
        if i == span:
            shop, i, span = Shop(*taillard_like(32, 10, 8)), 0, 80
        done = shop.done()
        target = shop.left.masked_fill(done, -1).argmax(1)
        loss = F.cross_entropy(policy(shop.features(), done), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        job = torch.multinomial(0.7 * F.one_hot(target, 10) + 0.3 * (~done) / (~done).sum(1, keepdim=True), 1)
        shop.dispatch(job.squeeze(1))
        i += 1
    return loss.item()


def decode_step(policy, shop, temperature):
    done = shop.done()
    logits = policy(shop.features(), done)
    probs = torch.softmax(logits / temperature, -1)
    job = torch.multinomial(probs, 1).squeeze(1)
    shop.dispatch(job)
    return torch.log(probs.gather(1, job.unsqueeze(1)).squeeze(1))


def rule(dur, route, kind):
    shop = Shop(dur, route)
    for _ in range(dur.shape[1] * dur.shape[2]):
        done = shop.done()
        if kind == "SPT":
            mach, d = shop.current()
            start = torch.maximum(shop.mach_free.gather(1, mach), shop.job_free).masked_fill(done, 1e9)
            job = (start * 1000 + d).argmin(1)  # shortest among those that can start first
        else:
            job = shop.left.masked_fill(done, -1).argmax(1)
        shop.dispatch(job)
    return shop.makespan()


def main():
    policy = Policy()
    loss = imitate(policy)
    policy.eval()
    step = torch.compile(decode_step)
    print(f"imitation loss {loss:.3f}")
    for jobs, machines in SIZES:
        dur, route = taillard_like(INSTANCES, jobs, machines)
        with torch.no_grad():
            shop = Shop(dur.repeat_interleave(SAMPLES, 0), route.repeat_interleave(SAMPLES, 0))
            logp = torch.zeros(INSTANCES * SAMPLES)
            for _ in range(jobs * machines):
                logp += step(policy, shop, 0.4)
        spans = shop.makespan().view(INSTANCES, SAMPLES)
        bound = dur.sum(-1).amax(1)
        print(
            f"{jobs}x{machines}: policy best {spans.amin(1).mean():.1f} mean {spans.mean():.1f}  "
            f"SPT {rule(dur, route, 'SPT').mean():.1f}  MWKR {rule(dur, route, 'MWKR').mean():.1f}  "
            f"bound {bound.mean():.1f}  log-prob {logp.mean():.1f}"
        )


if __name__ == "__main__":
    main()
