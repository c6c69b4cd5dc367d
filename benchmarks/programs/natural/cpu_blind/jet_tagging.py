"""Top/QCD jet tagging with an attention-pooled particle flow network on ragged constituents."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1234)
FEATURES = 6


def toy_jets(n, gen):
    """Returns a list of (n_i, FEATURES) and labels. Signal: three prongs; background: one."""
    jets, labels = [], []
    for _ in range(n):
        y = int(torch.rand(1, generator=gen) < 0.5)
        k = int(torch.randint(12, 70, (1,), generator=gen))
        prongs = 3 if y else 1
        centre = 0.35 * torch.randn(prongs, 2, generator=gen)
        which = torch.randint(0, prongs, (k,), generator=gen)
        pos = centre[which] + 0.16 * torch.randn(k, 2, generator=gen)
        pt = torch.distributions.Exponential(1.0).icdf(torch.rand(k, generator=gen).clamp(1e-4, 0.9999))
        pt = pt / pt.sum()
        pos = pos - (pos * pt[:, None]).sum(0)
        dr = pos.norm(dim=1, keepdim=True)
        charge = torch.randint(-1, 2, (k, 1), generator=gen).float()
        jets.append(torch.cat([pos, pt.log()[:, None], pt[:, None], dr, charge], 1))
        labels.append(y)
    return jets, torch.tensor(labels, dtype=torch.float32)


def collate(jets, labels, idx):
    sel = [jets[i] for i in idx.tolist()]
    lengths = torch.tensor([j.shape[0] for j in sel])
    seg = torch.repeat_interleave(torch.arange(len(sel)), lengths)
    return torch.cat(sel), seg, len(sel), labels[idx]


def batches(n, size, gen=None):
    perm = torch.randperm(n, generator=gen) if gen is not None else torch.arange(n)
    return perm.split(size)


def segment_softmax(score, seg, num):
    idx = seg[:, None].expand_as(score)
    mx = torch.full((num, score.shape[1]), float("-inf"))
    mx = mx.scatter_reduce(0, idx, score.detach(), "amax")
    e = torch.exp(score - mx[seg])
    den = torch.zeros_like(mx).index_add(0, seg, e)
    return e / den[seg].clamp(min=1e-9)


class ParticleBlock(nn.Module):
    """Each particle sees the pooled jet, like a Deep Sets layer with context."""

    def __init__(self, dim, heads=4):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.score = nn.Linear(dim, heads)
        self.value = nn.Linear(dim, dim)
        self.mix = nn.Sequential(
            nn.Linear(2 * dim, 2 * dim), nn.GELU(), nn.Dropout(0.05), nn.Linear(2 * dim, dim)
        )
        self.heads = heads

    def pool(self, x, seg, num):
        w = segment_softmax(self.score(x), seg, num)
        v = self.value(x).view(x.shape[0], self.heads, -1) * w[..., None]
        out = torch.zeros(num, v.shape[1] * v.shape[2])
        return out.index_add(0, seg, v.flatten(1))

    def forward(self, x, seg, num):
        h = self.norm(x)
        ctx = self.pool(h, seg, num)
        return x + self.mix(torch.cat([h, ctx[seg]], 1))


class JetTagger(nn.Module):
    def __init__(self, dim=48, depth=2):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(FEATURES, dim), nn.GELU(), nn.Linear(dim, dim))
        self.blocks = nn.ModuleList(ParticleBlock(dim) for _ in range(depth))
        self.readout = ParticleBlock(dim)
        self.head = nn.Sequential(nn.Linear(2 * dim, dim), nn.GELU(), nn.Linear(dim, 1))

    def forward(self, x, seg, num):
        h = self.embed(x)
        for b in self.blocks:
            h = b(h, seg, num)
        att = self.readout.pool(h, seg, num)
        mx = torch.zeros_like(att).scatter_reduce(0, seg[:, None].expand_as(h), h, "amax", include_self=False)
        return self.head(torch.cat([att, mx], 1)).squeeze(1)


def auc(score, y):
    order = score.argsort()
    rank = torch.empty_like(score)
    rank[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    pos = y.sum()
    return ((rank[y > 0].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))).item()


def main():
    torch.set_num_threads(2)
    gen = torch.Generator().manual_seed(8)
    train, ytr = toy_jets(3000, gen)
    test, yte = toy_jets(800, gen)

    model = JetTagger()
    tagger = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=6 * 32)

    for epoch in range(6):
        model.train()
        running = 0.0
        for idx in batches(len(train), 96, gen):
            x, seg, num, y = collate(train, ytr, idx)
            opt.zero_grad(set_to_none=True)
            loss = F.binary_cross_entropy_with_logits(tagger(x, seg, num), y)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            running += loss.item() * num
        model.eval()
        with torch.no_grad():
            scores = torch.cat(
                [tagger(x, s, n) for x, s, n, _ in (collate(test, yte, i) for i in batches(len(test), 200))]
            )
        acc = ((scores > 0).float() == yte).float().mean()
        print(
            f"epoch {epoch}: loss {running / len(train):.4f}  auc {auc(scores, yte):.4f}  acc {acc:.4f}  |g| {norm:.3f}"
        )

    # background rejection at 50 % signal efficiency
    thr = scores[yte > 0].median()
    fpr = (scores[yte == 0] > thr).float().mean().clamp(min=1e-3)
    print(f"rejection at 50%: {1 / fpr:.1f}")


if __name__ == "__main__":
    main()
