"""Next-item training of an HSTU recommender on watch histories of short videos.

Pointwise (SiLU) attention with relative position and time biases, sampled softmax with shared negatives.
Batches are padded to the longest history in the batch.
"""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F

device = "cuda"
torch.manual_seed(5)
torch.backends.cuda.matmul.allow_tf32 = True

N_ITEMS = 400_000
DIM = 256
HEADS = 4
LAYERS = 4
MAX_LEN = 256
BATCH = 128
NEGATIVES = 1024
STEPS = 60
N_BUCKETS = 128


class RelativeBias(nn.Module):
    def __init__(self, max_len):
        super().__init__()
        self.max_len = max_len
        self.pos_w = nn.Parameter(torch.empty(2 * max_len - 1).normal_(std=0.02))
        self.ts_w = nn.Parameter(torch.empty(N_BUCKETS + 1).normal_(std=0.02))

    def forward(self, timestamps):
        b, n = timestamps.shape
        idx = torch.arange(n, device=timestamps.device)
        pos = self.pos_w[idx[None, :] - idx[:, None] + self.max_len - 1]
        nxt = torch.cat([timestamps[:, 1:], timestamps[:, -1:]], dim=1)
        diff = nxt[:, :, None] - timestamps[:, None, :]
        bucket = (torch.log(diff.abs().clamp(min=1).float()) / 0.301).long().clamp(0, N_BUCKETS)
        ts = torch.index_select(self.ts_w, 0, bucket.view(-1)).view(b, n, n)
        return pos[None] + ts


class HSTULayer(nn.Module):
    def __init__(self, dim, heads, dropout=0.2):
        super().__init__()
        self.heads = heads
        self.dh = dim // heads
        self.norm = nn.LayerNorm(dim)
        self.uvqk = nn.Linear(dim, 4 * dim, bias=False)
        self.attn_norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, dim)
        self.bias = RelativeBias(MAX_LEN)
        self.dropout = dropout

    def forward(self, x, timestamps, mask):
        b, n, d = x.shape
        u, v, q, k = F.silu(self.uvqk(self.norm(x))).split(d, dim=-1)
        q = q.view(b, n, self.heads, self.dh)
        k = k.view(b, n, self.heads, self.dh)
        v = v.view(b, n, self.heads, self.dh)
        scores = torch.einsum("bnhd,bmhd->bhnm", q, k)
        scores = scores + self.bias(timestamps)[:, None]
        attn = F.silu(scores) / n
        attn = attn * mask[:, None]
        y = torch.einsum("bhnm,bmhd->bnhd", attn.to(v.dtype), v).reshape(b, n, d)
        y = u * self.attn_norm(y)
        return x + self.out(F.dropout(y, self.dropout, self.training))


class HSTU(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(N_ITEMS, DIM, padding_idx=0)
        self.position = nn.Embedding(MAX_LEN, DIM)
        self.watch = nn.Linear(1, DIM)
        self.layers = nn.ModuleList(HSTULayer(DIM, HEADS) for _ in range(LAYERS))
        nn.init.normal_(self.items.weight, std=0.02)

    def forward(self, ids, timestamps, watched):
        b, n = ids.shape
        valid = ids != 0
        x = self.items(ids) * DIM**0.5 + self.position.weight[:n] + self.watch(watched[..., None])
        x = F.dropout(x, 0.2, self.training) * valid[..., None]
        causal = torch.tril(torch.ones(n, n, dtype=torch.bool, device=ids.device))
        mask = causal[None] & valid[:, None, :]
        for layer in self.layers:
            x = layer(x, timestamps, mask)
        return F.normalize(x, dim=-1)


def sampled_softmax(hidden, targets, negatives, table, tau=0.05):
    pos = F.normalize(table[targets], dim=-1)
    neg = F.normalize(table[negatives], dim=-1)
    pos_logit = (hidden * pos).sum(-1, keepdim=True)
    neg_logit = hidden @ neg.t()
    neg_logit = neg_logit.masked_fill(targets[..., None] == negatives, -5e4)
    logits = torch.cat([pos_logit, neg_logit], dim=-1).float() / tau
    nll = -F.log_softmax(logits, dim=-1)[..., 0]
    w = (targets != 0).float()
    return (nll * w).sum() / w.sum()


def make_history(generator):
    length = int(MAX_LEN * (0.35 + 0.64 * torch.rand(1, generator=generator).item()))
    taste = torch.randint(1, 200, (1,), generator=generator)
    ids = (taste * 1999 + (torch.randn(length + 1, generator=generator).abs() * 300).long()) % (
        N_ITEMS - 1
    ) + 1
    gaps = torch.distributions.Exponential(1 / 600.0).sample((length + 1,))
    ts = gaps.cumsum(0).long()
    watched = torch.rand(length + 1, generator=generator)
    return ids, ts, watched


def collate(histories):
    pad = nn.utils.rnn.pad_sequence
    ids = pad([h[0] for h in histories], batch_first=True)
    ts = pad([h[1] for h in histories], batch_first=True)
    watched = pad([h[2] for h in histories], batch_first=True)
    return (ids[:, :-1].to(device), ts[:, :-1].to(device), watched[:, :-1].to(device), ids[:, 1:].to(device))


def main():
    g = torch.Generator().manual_seed(5)
    users = [make_history(g) for _ in range(2048)]
    users.sort(key=lambda h: len(h[0]))  # length buckets, to waste less padding
    model = HSTU().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    net = torch.compile(model)
    loss_fn = torch.compile(sampled_softmax)
    n_batches = len(users) // BATCH

    running, t0 = 0.0, time.time()
    for step in range(STEPS):
        j = int(torch.randint(0, n_batches, (1,), generator=g))
        ids, ts, watched, targets = collate(users[j * BATCH : (j + 1) * BATCH])
        negatives = torch.randint(1, N_ITEMS, (NEGATIVES,), device=device)
        with torch.autocast(device, dtype=torch.bfloat16):
            hidden = net(ids, ts, watched)
            loss = loss_fn(hidden, targets, negatives, model.items.weight)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running = 0.9 * running + 0.1 * loss.item() if step else loss.item()
        if step % 15 == 0:
            print(f"step {step:3d}  length {ids.shape[1]:3d}  loss {running:.4f}  {time.time() - t0:.1f} s")
    print(f"final smoothed loss {running:.4f}")


if __name__ == "__main__":
    main()
