"""Pointer-generator headline writer: trains on synthetic bulletins, then writes headlines greedily.

The decoder step mixes a vocabulary softmax with a copy distribution over the source, so names that
are not in the vocabulary (numbered from VOCAB upwards inside each batch) can be produced.
"""

import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, EMB, HID = 3000, 96, 160
PAD, BOS, EOS, UNK = 0, 1, 2, 3
BATCH, TRAIN_BATCHES, EVAL_BATCHES = 24, 18, 6
HEADLINE = 8

random.seed(5)
torch.manual_seed(5)


def make_bulletin():
    """A bulletin is filler with a few key facts; the headline lists the facts in order."""
    n = random.randint(30, 110)
    words = [random.randint(200, VOCAB - 1) for _ in range(n)]
    facts, n_facts = [], random.randint(3, HEADLINE - 2)
    at = sorted(random.sample(range(1, n, 2), n_facts))
    for p in at:
        words[p - 1] = 10  # cue word before every fact
        words[p] = -random.randint(1, 5000) if random.random() < 0.4 else random.randint(20, 199)
        facts.append(words[p])
    return words, facts


def collate(pairs):
    """Sorts out out-of-vocabulary ids; negative words are names unknown to the vocabulary."""
    s_max = max(len(w) for w, _ in pairs)
    src = torch.full((len(pairs), s_max), PAD)
    ext = torch.full((len(pairs), s_max), PAD)
    tgt = torch.full((len(pairs), HEADLINE), PAD)
    max_oov = 0
    for i, (words, facts) in enumerate(pairs):
        oov = {}
        for j, w in enumerate(words):
            if w < 0:
                oov.setdefault(w, VOCAB + len(oov))
                src[i, j], ext[i, j] = UNK, oov[w]
            else:
                src[i, j] = ext[i, j] = w
        out = [oov.get(f, f) for f in facts] + [EOS]
        tgt[i, : len(out)] = torch.tensor(out)
        max_oov = max(max_oov, len(oov))
    return src, ext, tgt, max_oov


class Encoder(nn.Module):
    def __init__(self, emb):
        super().__init__()
        self.emb = emb
        self.rnn = nn.GRU(EMB, HID // 2, batch_first=True, bidirectional=True)
        self.keys = nn.Linear(HID, HID, bias=False)

    def forward(self, src):
        lens = (src != PAD).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(
            self.emb(src), lens, batch_first=True, enforce_sorted=False
        )
        out, h = self.rnn(packed)
        mem, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=src.shape[1])
        return mem, self.keys(mem), torch.cat([h[0], h[1]], -1)


class CopyDecoder(nn.Module):
    def __init__(self, emb):
        super().__init__()
        self.emb = emb
        self.cell = nn.GRUCell(EMB + HID, HID)
        self.query = nn.Linear(HID, HID)
        self.cov = nn.Linear(1, HID, bias=False)
        self.v = nn.Linear(HID, 1, bias=False)
        self.out = nn.Sequential(nn.Linear(2 * HID, EMB), nn.Tanh())
        self.bias = nn.Parameter(torch.zeros(VOCAB))
        self.gate = nn.Linear(2 * HID + EMB, 1)

    def forward(self, tok, h, ctx, coverage, mem, keys, ext, n_oov):
        e = self.emb(torch.where(tok >= VOCAB, UNK, tok))
        h = self.cell(torch.cat([e, ctx], -1), h)
        score = self.v(torch.tanh(keys + self.query(h)[:, None] + self.cov(coverage[..., None]))).squeeze(-1)
        score = score.masked_fill(ext == PAD, float("-inf"))
        attn = score.softmax(-1)
        ctx = torch.einsum("bs,bsh->bh", attn, mem)
        hc = torch.cat([h, ctx], -1)
        p_gen = torch.sigmoid(self.gate(torch.cat([hc, e], -1)))
        vocab = F.softmax(F.linear(self.out(hc), self.emb.weight, self.bias), -1)
        dist = F.pad(p_gen * vocab, (0, n_oov))
        dist = dist.scatter_add(1, ext, (1 - p_gen) * attn)
        overlap = torch.minimum(attn, coverage).sum(-1)
        return dist, h, ctx, coverage + attn, overlap


class HeadlineWriter(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, EMB, padding_idx=PAD)
        self.encoder = Encoder(self.emb)
        self.decoder = CopyDecoder(self.emb)
        self.step = torch.compile(self.decoder)

    def start(self, src):
        mem, keys, h = self.encoder(src)
        b = src.shape[0]
        return mem, keys, h, torch.zeros(b, HID), torch.zeros(b, src.shape[1])

    def loss(self, src, ext, tgt, n_oov):
        mem, keys, h, ctx, cov = self.start(src)
        tok = torch.full((src.shape[0],), BOS)
        total, count = 0.0, 0
        for t in range(tgt.shape[1]):
            dist, h, ctx, cov, overlap = self.step(tok, h, ctx, cov, mem, keys, ext, n_oov)
            live = tgt[:, t] != PAD
            p = dist.gather(1, tgt[:, t : t + 1]).squeeze(1)
            total = total + ((-(p + 1e-9).log() + 0.2 * overlap) * live).sum()
            count = count + live.sum()
            tok = tgt[:, t]
        return total / count

    @torch.no_grad()
    def write(self, src, ext, n_oov, max_len=HEADLINE):
        mem, keys, h, ctx, cov = self.start(src)
        tok = torch.full((src.shape[0],), BOS)
        done = torch.zeros(src.shape[0], dtype=torch.bool)
        words = []
        for _ in range(max_len):
            dist, h, ctx, cov, _ = self.step(tok, h, ctx, cov, mem, keys, ext, n_oov)
            tok = torch.where(done, PAD, dist.argmax(-1))
            words.append(tok)
            done |= tok == EOS
            if done.all():
                break
        out = torch.stack(words, 1)
        return F.pad(out, (0, max_len - out.shape[1]))


def f1_unigram(pred, ref):
    p = [w for w in pred.tolist() if w > UNK]
    r = [w for w in ref.tolist() if w > UNK]
    hit = sum(min(p.count(w), r.count(w)) for w in set(r))
    return 2 * hit / max(1, len(p) + len(r))


def run():
    model = HeadlineWriter()
    params = list({id(p): p for p in model.parameters()}.values())
    opt = torch.optim.Adam(params, lr=3e-3)
    t0 = time.perf_counter()
    words = 0
    for i in range(1, TRAIN_BATCHES + 1):
        src, ext, tgt, n_oov = collate([make_bulletin() for _ in range(BATCH)])
        loss = model.loss(src, ext, tgt, n_oov)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, 2.0)
        opt.step()
        words += int((src != PAD).sum())
        if i % 3 == 0:
            print(
                f"batch {i:3d}  loss {loss.item():6.3f}  {words / (time.perf_counter() - t0):8.0f} words/s",
                flush=True,
            )

    model.eval()
    t1 = time.perf_counter()
    scores = []
    for _ in range(EVAL_BATCHES):
        src, ext, tgt, n_oov = collate([make_bulletin() for _ in range(BATCH)])
        pred = model.write(src, ext, n_oov)
        scores += [f1_unigram(p, r) for p, r in zip(pred, tgt)]
    dt = time.perf_counter() - t1
    print(
        f"wrote {len(scores)} headlines in {dt:.2f} s ({len(scores) / dt:.0f}/s), unigram F1 {sum(scores) / len(scores):.3f}"
    )
    print(f"whole run {time.perf_counter() - t0:.1f} s")


if __name__ == "__main__":
    run()
