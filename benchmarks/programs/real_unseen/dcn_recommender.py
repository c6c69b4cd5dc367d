"""Trains a DCN-v2 click model with single- and multi-valued embedding-bag features, Adagrad for tables and AdamW for the dense part."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchmetrics.classification import BinaryAUROC


class CrossLayer(nn.Module):
    def __init__(self, dim, rank=64):
        super().__init__()
        self.u = nn.Linear(dim, rank, bias=False)
        self.v = nn.Linear(rank, dim)

    def forward(self, x0, x):
        return x0 * self.v(self.u(x)) + x


class DCN(nn.Module):
    def __init__(self, vocab, history_vocab, dense=13, emb=32):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(v, emb) for v in vocab)
        self.history = nn.EmbeddingBag(history_vocab, emb, mode="sum", include_last_offset=True)
        dim = dense + emb * (len(vocab) + 1)
        self.norm = nn.BatchNorm1d(dense)
        self.cross = nn.ModuleList(CrossLayer(dim) for _ in range(3))
        self.deep = nn.Sequential(
            nn.Linear(dim, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 256), nn.ReLU(), nn.Dropout(0.1)
        )
        self.head = nn.Linear(dim + 256, 1)
        for t in self.tables:
            nn.init.normal_(t.weight, std=0.05)
        nn.init.normal_(self.history.weight, std=0.05)

    def forward(self, dense, cats, hist, offsets, hist_w):
        embs = [t(cats[:, i]) for i, t in enumerate(self.tables)]
        bag = self.history(hist, offsets, per_sample_weights=hist_w)
        x0 = torch.cat([self.norm(torch.log1p(dense.clamp(min=0))), *embs, bag], 1)
        x = x0
        for layer in self.cross:
            x = layer(x0, x)
        return self.head(torch.cat([x, self.deep(x0)], 1)).squeeze(1)


def batch(n, vocab, hv, gen):
    dense = torch.empty(n, 13, device="cuda").exponential_(generator=gen) * 4
    cats = torch.stack(
        [(torch.rand(n, device="cuda", generator=gen) ** 3 * v).long().clamp(max=v - 1) for v in vocab], 1
    )
    lens = torch.randint(0, 30, (n,), device="cuda", generator=gen)
    offsets = torch.cat([lens.new_zeros(1), lens.cumsum(0)])
    total = int(offsets[-1])
    hist = torch.randint(0, hv, (total,), device="cuda", generator=gen)
    w = torch.rand(total, device="cuda", generator=gen)
    logit = 0.4 * (dense[:, 0] - dense[:, 1]) + ((cats[:, 0] % 7) - 3).float() * 0.5 + 0.02 * lens - 0.5
    y = torch.bernoulli(torch.sigmoid(logit), generator=gen)
    return dense, cats, hist, offsets, w, y


def main():
    torch.manual_seed(20)
    torch.set_float32_matmul_precision("high")
    gen = torch.Generator(device="cuda").manual_seed(20)
    vocab = [200_000, 50_000, 50_000, 10_000, 5_000, 1_000, 1_000, 500, 100, 100, 24, 7]
    model = DCN(vocab, 100_000).cuda()
    net = torch.compile(model)
    sparse = [*model.tables.parameters(), *model.history.parameters()]
    ids = {id(p) for p in sparse}
    dense_params = [p for p in model.parameters() if id(p) not in ids]
    opts = [torch.optim.Adagrad(sparse, lr=0.02), torch.optim.AdamW(dense_params, lr=1e-3, fused=True)]
    auroc = BinaryAUROC().cuda()
    for step in range(36):
        *feats, y = batch(8192, vocab, 100_000, gen)
        logits = net(*feats)
        loss = F.binary_cross_entropy_with_logits(logits, y)
        for o in opts:
            o.zero_grad(set_to_none=True)
        loss.backward()
        for o in opts:
            o.step()
        if step >= 26:
            auroc.update(logits.detach().sigmoid(), y.long())
    print("loss %.4f" % loss.item())
    print("auroc %.4f" % auroc.compute().item())


if __name__ == "__main__":
    main()
