"""Immune status from T-cell receptor repertoires (DeepRC-like).

Each donor is a bag of CDR3 amino-acid sequences with clone counts.  A small CNN
embeds the sequences, a modern Hopfield layer with learned state patterns pools the
bag, and a linear layer predicts CMV serostatus.  As the bags are large, attention
over the whole bag is found without gradients and the strongest sequences only are
used in the weight update.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)

AA = "ACDEFGHIKLMNPQRSTVWY"
MAX_LEN = 22
MOTIF = [AA.index(c) for c in "GRDQ"]


def make_donor(gen, positive):
    n = int(torch.randint(900, 2200, (), generator=gen))
    length = torch.randint(11, MAX_LEN - 2, (n,), generator=gen)
    seq = torch.randint(0, 20, (n, MAX_LEN), generator=gen)
    seq[:, 0] = AA.index("C")
    if positive:
        hit = torch.randperm(n, generator=gen)[: n // 10]
        seq[hit[:, None], torch.tensor([5, 6, 7, 8])] = torch.tensor(MOTIF)
    pad = torch.arange(MAX_LEN)[None] >= length[:, None]
    seq = seq.masked_fill(pad, 20)
    counts = torch.distributions.Pareto(1.0, 1.4).sample((n,)).clamp(max=500).floor()
    return {"seq": seq, "length": length, "counts": counts, "label": float(positive)}


class SequenceEmbedding(nn.Module):
    def __init__(self, kernels=32, width=7):
        super().__init__()
        self.conv = nn.Conv1d(20 + 3, kernels, width, padding=width // 2)

    def forward(self, seq, length, counts):
        x = F.one_hot(seq, 21)[..., :20].float()
        x = x * torch.log1p(counts)[:, None, None] / 2
        pos = torch.arange(MAX_LEN, device=seq.device)[None].float()
        end = length[:, None].float() - 1
        start_f = (1 - 2 * pos / end).clamp(min=0)
        end_f = (2 * pos / end - 1).clamp(min=0)
        mid_f = (1 - (2 * pos / end - 1).abs()).clamp(min=0)
        keep = (pos <= end).float()
        feats = torch.stack([start_f, mid_f, end_f], -1) * keep[..., None]
        h = self.conv(torch.cat([x, feats], -1).transpose(1, 2))
        h = h.masked_fill(keep[:, None] == 0, float("-inf"))
        return F.selu(h.max(dim=2).values)


class HopfieldPooling(nn.Module):
    def __init__(self, dim, patterns=4, beta=1.0, updates=2):
        super().__init__()
        self.state = nn.Parameter(torch.randn(patterns, dim) * 0.1)
        self.key = nn.Sequential(nn.Linear(dim, 64), nn.SELU(), nn.Linear(64, dim))
        self.norm = nn.LayerNorm(dim)
        self.beta = beta
        self.updates = updates

    def association(self, emb):
        stored = self.norm(self.key(emb))
        xi = self.state
        for _ in range(self.updates):
            logits = self.beta * xi @ stored.T
            xi = F.softmax(logits, dim=-1) @ stored
        return self.beta * xi @ stored.T

    def forward(self, emb):
        return F.softmax(self.association(emb), dim=-1) @ emb


class RepertoireNet(nn.Module):
    def __init__(self, kernels=32):
        super().__init__()
        self.embed = SequenceEmbedding(kernels)
        self.pool = HopfieldPooling(kernels)
        self.out = nn.Sequential(nn.Flatten(0), nn.Linear(4 * kernels, 32), nn.SELU(), nn.Linear(32, 1))

    def scores(self, seq, length, counts):
        return self.pool.association(self.embed(seq, length, counts)).amax(0)

    def forward(self, seq, length, counts):
        with torch.no_grad():
            s = self.scores(seq, length, counts)
            top = torch.topk(s, max(64, seq.shape[0] // 5)).indices if self.training else None
        if top is not None:
            seq, length, counts = seq[top], length[top], counts[top]
        return self.out(self.pool(self.embed(seq, length, counts))).squeeze(-1)


def main():
    gen = torch.Generator().manual_seed(17)
    donors = [make_donor(gen, i % 2 == 0) for i in range(60)]
    train, test = donors[:44], donors[44:]
    net = RepertoireNet()
    model = torch.compile(net)
    opt = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=1e-3)
    accumulate = 2

    for epoch in range(9):
        net.train()
        order = torch.randperm(len(train), generator=gen).tolist()
        running = 0.0
        for i, d in enumerate(order):
            donor = train[d]
            logit = model(donor["seq"], donor["length"], donor["counts"])
            loss = F.binary_cross_entropy_with_logits(logit, torch.tensor(donor["label"]))
            (loss / accumulate).backward()
            running += loss.item()
            if (i + 1) % accumulate == 0:
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
        if epoch % 4 == 0:
            print(f"epoch {epoch}: loss {running / len(train):.4f}")

    net.eval()
    with torch.no_grad():
        logits = torch.stack([model(d["seq"], d["length"], d["counts"]) for d in test])
    labels = torch.tensor([d["label"] for d in test])
    pos, neg = logits[labels == 1], logits[labels == 0]
    auc = (pos[:, None] > neg[None]).float().mean()
    print(f"test AUC {auc:.3f}, accuracy {((logits > 0).float() == labels).float().mean():.3f}")


if __name__ == "__main__":
    main()
