"""Question answering over appliance manuals: a QANet reader behind a small batching queue.

Requests carry a question and a passage; whatever is waiting is padded to one batch, and the best answer span of each
passage is returned.
"""

import math
import random
import zlib

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, DIM, MAX_SPAN = 8000, 96, 15


def positions(length, dim):
    pos = torch.arange(length, dtype=torch.float32)[:, None]
    freq = torch.exp(torch.arange(0, dim, 2, dtype=torch.float32) * (-math.log(10000.0) / dim))
    table = torch.zeros(length, dim)
    table[:, 0::2] = torch.sin(pos * freq)
    table[:, 1::2] = torch.cos(pos * freq)
    return table


class SeparableConv(nn.Module):
    def __init__(self, dim, kernel):
        super().__init__()
        self.depth = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim, bias=False)
        self.point = nn.Conv1d(dim, dim, 1)

    def forward(self, x):
        return F.relu(self.point(self.depth(x.transpose(1, 2)))).transpose(1, 2)


class EncoderBlock(nn.Module):
    def __init__(self, dim, n_convs, kernel, heads=4):
        super().__init__()
        self.convs = nn.ModuleList(SeparableConv(dim, kernel) for _ in range(n_convs))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(n_convs))
        self.norm_att, self.norm_ff = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.heads = heads

    def forward(self, x, mask):
        x = x + positions(x.size(1), x.size(2))
        for norm, conv in zip(self.norms, self.convs):
            x = x + conv(norm(x))
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm_att(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        score = score.masked_fill(~mask[:, None, None, :], -1e9)
        x = x + self.proj((score.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.ff(self.norm_ff(x))


class QANet(nn.Module):
    def __init__(self, dim=DIM, model_blocks=2):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=0)
        self.gate, self.lift = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.embed_encoder = EncoderBlock(dim, 3, 7)
        self.w_c, self.w_q, self.w_cq = (nn.Parameter(torch.randn(dim) * 0.1) for _ in range(3))
        self.resize = nn.Linear(4 * dim, dim)
        self.model_encoder = nn.ModuleList(EncoderBlock(dim, 2, 5) for _ in range(model_blocks))
        self.start, self.end = nn.Linear(2 * dim, 1, bias=False), nn.Linear(2 * dim, 1, bias=False)

    def embed(self, ids, mask):
        x = self.emb(ids)
        g = torch.sigmoid(self.gate(x))
        x = g * F.relu(self.lift(x)) + (1 - g) * x
        return self.embed_encoder(x, mask)

    def run_stack(self, x, mask):
        for block in self.model_encoder:
            x = block(x, mask)
        return x

    def forward(self, passage, question):
        pm, qm = passage != 0, question != 0
        c, q = self.embed(passage, pm), self.embed(question, qm)
        sim = (c @ self.w_c)[:, :, None] + (q @ self.w_q)[:, None, :] + (c * self.w_cq) @ q.transpose(1, 2)
        s_row = sim.masked_fill(~qm[:, None, :], -1e9).softmax(2)
        s_col = sim.masked_fill(~pm[:, :, None], -1e9).softmax(1)
        a = s_row @ q
        b = s_row @ s_col.transpose(1, 2) @ c
        m0 = self.run_stack(self.resize(torch.cat([c, a, c * a, c * b], -1)), pm)
        m1 = self.run_stack(m0, pm)
        m2 = self.run_stack(m1, pm)
        start = self.start(torch.cat([m0, m1], -1)).squeeze(-1).masked_fill(~pm, -1e9).log_softmax(-1)
        end = self.end(torch.cat([m0, m2], -1)).squeeze(-1).masked_fill(~pm, -1e9).log_softmax(-1)
        span = start[:, :, None] + end[:, None, :]
        n = span.size(1)
        allowed = torch.ones(n, n, dtype=torch.bool).triu().tril(MAX_SPAN)
        best, where = span.masked_fill(~allowed, -1e9).flatten(1).max(-1)
        return best, where // n, where % n


def tokenize(text):
    return [zlib.crc32(w.encode()) % (VOCAB - 1) + 1 for w in text.lower().split()]


def pad(rows):
    out = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    for i, r in enumerate(rows):
        out[i, : len(r)] = torch.tensor(r)
    return out


WORDS = (
    "press hold the start button until drum door lamp filter water inlet hose drain pump error code flashes wait "
    "seconds minutes remove clean replace detergent drawer rinse spin cycle cotton wool temperature child lock "
    "oven rack fan grill timer set open close power cable plug before service warranty descale steam"
).split()


def synth_request(rng):
    n = int(min(420, max(40, rng.lognormvariate(5.0, 0.5))))
    passage = " ".join(rng.choice(WORDS) for _ in range(n))
    question = "how do i " + " ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 14)))
    return question, passage


@torch.inference_mode()
def main():
    torch.manual_seed(21)
    rng = random.Random(21)
    model = QANet().eval()
    for block in (model.embed_encoder, *model.model_encoder):
        block.compile(dynamic=True)
    answered, lengths, scores, sample = 0, [], [], None
    for _ in range(50):
        waiting = [synth_request(rng) for _ in range(rng.randint(1, 6))]
        passages = pad([tokenize(p) for _, p in waiting])
        questions = pad([tokenize(q) for q, _ in waiting])
        best, start, end = model(passages, questions)
        for (q, p), b, s, e in zip(waiting, best.tolist(), start.tolist(), end.tolist()):
            words = p.split()
            answered += 1
            lengths.append(e - s + 1)
            scores.append(b)
            sample = (q, " ".join(words[s : e + 1]))
    print(f"{answered} questions answered, mean span {sum(lengths) / answered:.2f} words")
    print(f"mean span log-probability {sum(scores) / answered:.4f}")
    print("last:", sample)


if __name__ == "__main__":
    main()
