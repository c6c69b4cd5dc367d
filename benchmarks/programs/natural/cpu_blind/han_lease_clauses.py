"""Inference service: a hierarchical attention network (Yang et al. 2016) flags risky lease documents.

Requests are documents of a varying number of sentences of varying length. The service collects small
batches, flattens the sentences, runs a word-level and a sentence-level GRU and returns the attention.
"""

import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

VOCAB = 8000
LABELS = ["break clause", "rent review", "repair duty", "assignment", "none"]
N_REQUESTS = 480
MAX_BATCH = 8


class AttentionPool(nn.Module):
    def __init__(self, dim, att=96):
        super().__init__()
        self.proj = nn.Linear(dim, att)
        self.context = nn.Linear(att, 1, bias=False)

    def forward(self, h, mask):
        score = self.context(torch.tanh(self.proj(h))).squeeze(-1)
        score = score.masked_fill(~mask, -1e4)
        w = F.softmax(score, dim=-1)
        return (w.unsqueeze(-1) * h).sum(dim=1), w


class RecurrentEncoder(nn.Module):
    def __init__(self, d_in, hidden):
        super().__init__()
        self.gru = nn.GRU(d_in, hidden, batch_first=True, bidirectional=True)
        self.norm = nn.LayerNorm(2 * hidden)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, _ = self.gru(packed)
        out, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
        return self.norm(out)


class HAN(nn.Module):
    def __init__(self, emb=96, hidden=64):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, emb, padding_idx=0)
        self.highway_gate = nn.Linear(emb, emb)
        self.highway = nn.Linear(emb, emb)
        self.words = RecurrentEncoder(emb, hidden)
        self.word_pool = AttentionPool(2 * hidden)
        self.sents = RecurrentEncoder(2 * hidden, hidden)
        self.sent_pool = AttentionPool(2 * hidden)
        self.out = nn.Sequential(nn.Linear(2 * hidden, 64), nn.GELU(), nn.Linear(64, len(LABELS)))

    def forward(self, tokens, word_len, sent_len):
        # tokens: all sentences of the batch (S, W); word_len (S,); sent_len (B,)
        e = self.embed(tokens)
        g = torch.sigmoid(self.highway_gate(e))
        e = g * F.relu(self.highway(e)) + (1 - g) * e
        h = self.words(e, word_len)
        word_mask = torch.arange(tokens.shape[1])[None] < word_len[:, None]
        sent_vec, word_att = self.word_pool(h, word_mask)
        docs = torch.split(sent_vec, sent_len.tolist())
        padded = nn.utils.rnn.pad_sequence(docs, batch_first=True)
        h = self.sents(padded, sent_len)
        sent_mask = torch.arange(padded.shape[1])[None] < sent_len[:, None]
        doc, sent_att = self.sent_pool(h, sent_mask)
        return F.softmax(self.out(doc), dim=-1), sent_att, word_att


def make_request(rng):
    n_sent = rng.randint(3, 24)
    return [[rng.randint(1, VOCAB - 1) for _ in range(max(4, int(rng.gauss(18, 7))))] for _ in range(n_sent)]


def collate(docs):
    sents = [s for d in docs for s in d]
    word_len = torch.tensor([len(s) for s in sents])
    tokens = torch.zeros(len(sents), int(word_len.max()), dtype=torch.long)
    for i, s in enumerate(sents):
        tokens[i, : len(s)] = torch.tensor(s)
    return tokens, word_len, torch.tensor([len(d) for d in docs])


class ClauseService:
    def __init__(self):
        self.model = HAN().eval()
        self.predict = torch.compile(self.model)
        self.latencies = []

    @torch.inference_mode()
    def handle(self, docs):
        start = time.perf_counter()
        probs, sent_att, _ = self.predict(*collate(docs))
        conf, label = probs.max(dim=-1)
        key_sentence = sent_att.argmax(dim=-1)
        self.latencies.append(time.perf_counter() - start)
        return [(LABELS[l], c, k) for l, c, k in zip(label.tolist(), conf.tolist(), key_sentence.tolist())]


def main():
    torch.manual_seed(0)
    rng = random.Random(7)
    queue = [make_request(rng) for _ in range(N_REQUESTS)]
    service = ClauseService()
    counts, mean_conf, served = {}, 0.0, 0
    while queue:
        n = min(len(queue), rng.randint(1, MAX_BATCH))
        batch, queue = queue[:n], queue[n:]
        for label, conf, _ in service.handle(batch):
            counts[label] = counts.get(label, 0) + 1
            mean_conf += conf
            served += 1
    lat = sorted(service.latencies)
    print(f"served {served} documents in {len(lat)} batches, mean confidence {mean_conf / served:.4f}")
    print("labels", dict(sorted(counts.items())))
    print(f"latency p50 {lat[len(lat) // 2] * 1e3:.1f} ms  p95 {lat[int(len(lat) * 0.95)] * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
