"""Coreference resolution for digitised family letters, as a small request handler.

An archive's annotation tool posts letters of any length. A transformer encoder gives token states; spans up to ten words
are enumerated and scored, the best are kept (proportional to the letter's length), every kept span is scored against its
preceding candidates (coarse bilinear, then a feed-forward pair scorer), and links are turned into clusters.
"""

import random
import time

import torch
import torch.nn as nn

torch.manual_seed(1847)
random.seed(1847)

VOCAB = 6000
D = 192
MAX_WIDTH = 10
KEEP_PERCENT = 35
MAX_ANTE = 20
NAMES = "Clara Robert Fanny Johannes Joseph Marie Elise Ludwig Ferdinand Eugenie Felix Julie".split()
FILLER = "and then the house in winter was cold but our dear aunt wrote that she would come by coach after easter".split()


def tokenise(text):
    return [1 + sum(ord(c) * (31 ** (i % 5)) for i, c in enumerate(w)) % (VOCAB - 1) for w in text.split()]


def random_letter():
    n = int(min(320, max(24, random.lognormvariate(4.6, 0.7))))
    words = []
    while len(words) < n:
        if random.random() < 0.2:
            words.append(random.choice(NAMES + ["she", "he", "they", "her", "his"]))
        else:
            words.append(random.choice(FILLER))
    return " ".join(words[:n])


class Encoder(nn.Module):
    def __init__(self, layers=3, heads=6):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, D)
        self.pos = nn.Embedding(512, D)
        layer = nn.TransformerEncoderLayer(D, heads, 4 * D, dropout=0.1, activation="gelu", batch_first=True)
        self.enc = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, ids):
        pos = torch.arange(ids.shape[1], device=ids.device)
        return self.enc(self.emb(ids) + self.pos(pos)[None])


def ffnn(d_in, hidden=150):
    return nn.Sequential(nn.Linear(d_in, hidden), nn.ReLU(), nn.Dropout(0.2), nn.Linear(hidden, 1))


class Coref(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.width_emb = nn.Embedding(MAX_WIDTH, 20)
        self.dist_emb = nn.Embedding(10, 20)
        self.head_att = nn.Linear(D, 1)
        d_span = 3 * D + 20
        self.mention = ffnn(d_span)
        self.coarse = nn.Linear(d_span, d_span)
        self.pair = ffnn(3 * d_span + 20)

    def spans(self, h):
        T = h.shape[0]
        start = torch.arange(T)[:, None].expand(T, MAX_WIDTH)
        end = start + torch.arange(MAX_WIDTH)
        ok = end < T
        start, end = start[ok], end[ok]
        inside = torch.arange(T)[None, :]
        mask = (inside >= start[:, None]) & (inside <= end[:, None])
        att = self.head_att(h).squeeze(1)[None, :].masked_fill(~mask, float("-inf"))
        head = torch.softmax(att, 1) @ h
        g = torch.cat([h[start], h[end], head, self.width_emb(end - start)], 1)
        return start, end, g

    def bucket(self, d):
        log = torch.floor(torch.log2(d.clamp(min=1).float())).long() + 3
        return torch.where(d <= 4, d, log).clamp(0, 9)

    def forward(self, ids):
        h = self.encoder(ids)[0]
        start, end, g = self.spans(h)
        sm = self.mention(g).squeeze(1)
        k = ids.shape[1] * KEEP_PERCENT // 100
        top = torch.topk(sm, k).indices
        top = top[torch.argsort(start[top] * 1000 + end[top])]
        g, sm, start, end = g[top], sm[top], start[top], end[top]
        fast = self.coarse(g) @ g.T + sm[:, None] + sm[None, :]
        rng = torch.arange(k)
        before = rng[None, :] < rng[:, None]
        fast = fast.masked_fill(~before, float("-inf"))
        c = min(MAX_ANTE, k)
        val, ante = torch.topk(fast, c, dim=1)
        ga = g[ante]
        gi = g[:, None].expand_as(ga)
        dist = self.dist_emb(self.bucket(rng[:, None] - ante))
        slow = self.pair(torch.cat([gi, ga, gi * ga, dist], -1)).squeeze(-1)
        score = val + slow
        score = torch.cat([torch.zeros(k, 1), score], 1)
        return start, end, ante, score


class Service:
    def __init__(self):
        self.model = Coref()
        self.model.eval()
        torch._dynamo.config.capture_dynamic_output_shape_ops = True
        self.run = torch.compile(self.model, dynamic=True)

    def clusters(self, start, end, ante, score):
        best = score.argmax(1).tolist()
        cluster = {}
        groups = []
        for i, b in enumerate(best):
            if b == 0:
                continue
            j = int(ante[i, b - 1])
            if j not in cluster:
                cluster[j] = len(groups)
                groups.append([(int(start[j]), int(end[j]))])
            cluster[i] = cluster[j]
            groups[cluster[j]].append((int(start[i]), int(end[i])))
        return groups

    @torch.inference_mode()
    def handle(self, text):
        ids = torch.tensor([tokenise(text)])
        return self.clusters(*self.run(ids))


def main():
    service = Service()
    letters = [random_letter() for _ in range(120)]
    sizes = [len(t.split()) for t in letters]
    n_clusters, n_mentions, took = 0, 0, []
    for text in letters:
        t0 = time.perf_counter()
        groups = service.handle(text)
        took.append(time.perf_counter() - t0)
        n_clusters += len(groups)
        n_mentions += sum(len(g) for g in groups)
    print(f"{len(letters)} letters of {min(sizes)} to {max(sizes)} words")
    print(f"{n_clusters} clusters, {n_mentions} mentions")
    print(f"median response {sorted(took)[len(took) // 2] * 1e3:.1f} ms, slowest {max(took) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
