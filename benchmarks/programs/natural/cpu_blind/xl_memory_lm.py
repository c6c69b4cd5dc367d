"""Character language model with segment recurrence and relative positions
(Transformer-XL), trained on synthetic log-like text."""

import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def make_corpus(n_lines=9000, seed=4):
    rnd = random.Random(seed)
    verbs = ["GET", "PUT", "POST", "DELETE"]
    paths = ["/users", "/cart/items", "/search?q=", "/login", "/api/v2/orders"]
    lines = []
    for i in range(n_lines):
        code = rnd.choice([200, 200, 200, 404, 500, 302])
        lines.append(f"{i:06d} {rnd.choice(verbs)} {rnd.choice(paths)}{rnd.randint(0, 99)} {code}\n")
    text = "".join(lines)
    vocab = sorted(set(text))
    stoi = {c: i for i, c in enumerate(vocab)}
    return torch.tensor([stoi[c] for c in text]), vocab


class RelAttention(nn.Module):
    def __init__(self, d, heads, drop):
        super().__init__()
        self.h, self.dh = heads, d // heads
        self.q = nn.Linear(d, d, bias=False)
        self.kv = nn.Linear(d, 2 * d, bias=False)
        self.r = nn.Linear(d, d, bias=False)
        self.o = nn.Linear(d, d, bias=False)
        self.drop = nn.Dropout(drop)

    @staticmethod
    def rel_shift(x):
        b, h, q, k = x.shape
        x = F.pad(x, (1, 0))
        x = x.view(b, h, k + 1, q)[:, :, 1:]
        return x.reshape(b, h, q, k)

    def forward(self, x, mem, pos, u, v, mask):
        b, q, d = x.shape
        cat = torch.cat([mem, x], dim=1)
        k = cat.shape[1]
        wq = self.q(x).view(b, q, self.h, self.dh)
        wk, wv = self.kv(cat).view(b, k, self.h, 2 * self.dh).chunk(2, dim=-1)
        wr = self.r(pos).view(k, self.h, self.dh)
        ac = torch.einsum("bihd,bjhd->bhij", wq + u, wk)
        bd = torch.einsum("bihd,jhd->bhij", wq + v, wr)
        score = (ac + self.rel_shift(bd)) * self.dh**-0.5
        score = score.masked_fill(mask, float("-inf"))
        prob = self.drop(score.softmax(-1))
        out = torch.einsum("bhij,bjhd->bihd", prob, wv)
        return self.o(out.reshape(b, q, d))


class Block(nn.Module):
    def __init__(self, d, heads, drop):
        super().__init__()
        self.att = RelAttention(d, heads, drop)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 3 * d), nn.ReLU(), nn.Dropout(drop), nn.Linear(3 * d, d))
        self.drop = nn.Dropout(drop)

    def forward(self, x, *args):
        x = self.n1(x + self.drop(self.att(x, *args)))
        return self.n2(x + self.drop(self.ff(x)))


class TransformerXL(nn.Module):
    def __init__(self, vocab, d=128, heads=4, layers=3, mem_len=96, drop=0.1):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(Block(d, heads, drop) for _ in range(layers))
        self.u = nn.Parameter(torch.zeros(heads, d // heads))
        self.v = nn.Parameter(torch.zeros(heads, d // heads))
        self.register_buffer("inv", 1 / (10000 ** (torch.arange(0, d, 2) / d)))
        self.out = nn.Linear(d, vocab)
        self.mem_len = mem_len

    def forward(self, ids, target, mems):
        q, m = ids.shape[1], mems[0].shape[1]
        dist = torch.arange(q + m - 1, -1, -1.0)
        ang = dist[:, None] * self.inv
        pos = torch.cat([ang.sin(), ang.cos()], -1)
        mask = torch.triu(torch.ones(q, q + m, dtype=torch.bool), 1 + m)
        x = self.emb(ids) * self.emb.embedding_dim**0.5
        new = []
        for blk, mem in zip(self.blocks, mems):
            new.append(torch.cat([mem, x], 1)[:, -self.mem_len :].detach())
            x = blk(x, mem, pos, self.u, self.v, mask)
        loss = F.cross_entropy(self.out(x).flatten(0, 1), target.flatten())
        return loss, new


def main():
    torch.manual_seed(0)
    torch.set_num_threads(2)
    data, vocab = make_corpus()
    batch, seg = 8, 64
    n = (len(data) - 1) // batch
    xs, ys = data[: n * batch].view(batch, n), data[1 : n * batch + 1].view(batch, n)
    model = TransformerXL(len(vocab))
    step_fn = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    mems = [torch.zeros(batch, model.mem_len, 128) for _ in model.blocks]

    t0, every = time.perf_counter(), 20
    for step in range(101):
        sl = slice(step * seg, (step + 1) * seg)
        loss, mems = step_fn(xs[:, sl], ys[:, sl], mems)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        if step % every == 0:
            dt, t0 = time.perf_counter() - t0, time.perf_counter()
            print(f"step {step:4d} bpc {loss.item() / 0.6931:.3f}  {1e3 * dt / every:.1f} ms/step")


if __name__ == "__main__":
    main()
