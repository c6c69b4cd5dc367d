"""Train a grapheme-to-phoneme seq2seq (GRU encoder, attention GRU decoder) on a toy lexicon."""

import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 13
random.seed(SEED)
torch.manual_seed(SEED)

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PAD, BOS, EOS = 0, 1, 2
RULES = {
    "ch": "CH",
    "sh": "SH",
    "th": "TH",
    "ph": "F",
    "ng": "NG",
    "ee": "IY",
    "oo": "UW",
    "ai": "EY",
    "ck": "K",
    "qu": "K W",
    "x": "K S",
    "ow": "AW",
}
SINGLE = dict(zip(LETTERS, "AE B K D EH F G HH IH JH K L M N AA P K R S T AH V W Z Y Z".split()))
PHONES = sorted({p for v in list(RULES.values()) + list(SINGLE.values()) for p in v.split()})
L2I = {c: i + 3 for i, c in enumerate(LETTERS)}
P2I = {p: i + 3 for i, p in enumerate(PHONES)}


def pronounce(word):
    out, i = [], 0
    while i < len(word):
        if word[i : i + 2] in RULES:
            out += RULES[word[i : i + 2]].split()
            i += 2
        elif word[i] in RULES:
            out += RULES[word[i]].split()
            i += 1
        else:
            out.append(SINGLE[word[i]])
            i += 1
    if word[-1] == "e" and len(out) > 2:
        out.pop()
    return out


def make_lexicon(n):
    onset = ["b", "ch", "d", "f", "g", "k", "l", "m", "n", "ph", "qu", "r", "s", "sh", "t", "th", "w"]
    vowel = ["a", "e", "i", "o", "u", "ee", "oo", "ai", "ow"]
    coda = ["", "", "n", "ng", "ck", "x", "t", "ll", "s", "e"]
    words = set()
    while len(words) < n:
        words.add(
            "".join(
                random.choice(onset) + random.choice(vowel) + random.choice(coda)
                for _ in range(random.choice([1, 2, 2]))
            )
        )
    return [(w, pronounce(w)) for w in sorted(words)]


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.emb = nn.Embedding(len(L2I) + 3, dim, padding_idx=PAD)
        self.rnn = nn.GRU(dim, dim // 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.rnn(self.emb(x))[0]


class Decoder(nn.Module):
    def __init__(self, dim, teacher_forcing=0.8):
        super().__init__()
        self.teacher_forcing = teacher_forcing
        self.emb = nn.Embedding(len(P2I) + 3, dim, padding_idx=PAD)
        self.cell = nn.GRUCell(2 * dim, dim)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.score = nn.Linear(dim, 1)
        self.out = nn.Linear(2 * dim, len(P2I) + 3)

    @torch.compile
    def step(self, gold, prev, h, memory, keys, mask):
        # scheduled sampling: mostly the gold symbol, sometimes our own last guess
        if self.training and random.random() > self.teacher_forcing:
            gold = prev.argmax(-1)
        e = self.score(torch.tanh(keys + self.query(h)[:, None])).squeeze(-1)
        a = torch.softmax(e.masked_fill(mask, -1e4), -1)
        ctx = (a[:, None] @ memory)[:, 0]
        h = self.cell(torch.cat([self.emb(gold), ctx], -1), h)
        return self.out(torch.cat([h, ctx], -1)), h

    def forward(self, memory, mask, targets):
        h = memory.mean(1)
        keys = self.key(memory)
        prev = F.one_hot(targets[:, 0], self.out.out_features).float()
        logits = []
        for gold in targets[:, :-1].unbind(1):
            prev, h = self.step(gold, prev, h, memory, keys, mask)
            logits.append(prev)
        return torch.stack(logits, 1)


class G2P(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.encoder = Encoder(dim)
        self.decoder = Decoder(dim)

    def forward(self, x, y):
        return self.decoder(self.encoder(x), x == PAD, y)


def batches(data, size):
    """Endless batches of words with similar pronunciation length, padded to the longest."""
    while True:
        order = sorted(data, key=lambda wp: len(wp[1]) + random.random())
        chunks = [order[i : i + size] for i in range(0, len(order) - size + 1, size)]
        random.shuffle(chunks)
        for chunk in chunks:
            xs = [torch.tensor([L2I[c] for c in w]) for w, _ in chunk]
            ys = [torch.tensor([BOS] + [P2I[p] for p in ph] + [EOS]) for _, ph in chunk]
            yield (
                nn.utils.rnn.pad_sequence(xs, batch_first=True, padding_value=PAD),
                nn.utils.rnn.pad_sequence(ys, batch_first=True, padding_value=PAD),
            )


def main():
    lexicon = make_lexicon(6000)
    random.shuffle(lexicon)
    train = batches(lexicon[400:], 160)
    model = G2P()
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 60)
    start = time.time()
    running = None
    for step in range(60):
        x, y = next(train)
        logits = model(x, y)
        loss = F.cross_entropy(
            logits.flatten(0, 1), y[:, 1:].flatten(), ignore_index=PAD, label_smoothing=0.05
        )
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        running = loss.item() if running is None else 0.9 * running + 0.1 * loss.item()
        if (step + 1) % 10 == 0:
            acc = (logits.argmax(-1) == y[:, 1:])[y[:, 1:] != PAD].float().mean().item()
            print(
                f"step {step + 1:3d} loss {running:.3f} phone acc {acc:.3f} len {y.shape[1]} "
                f"({time.time() - start:.1f}s)",
                flush=True,
            )

    model.eval()
    with torch.no_grad():
        wrong = total = 0
        for w, ph in lexicon[:100]:
            x = torch.tensor([[L2I[c] for c in w]])
            y = torch.tensor([[BOS] + [P2I[p] for p in ph] + [EOS]])
            wrong += (model(x, y).argmax(-1) != y[:, 1:]).sum().item()
            total += y.shape[1] - 1
    print(f"held-out phone error (teacher forced) {wrong / total:.3f}")


if __name__ == "__main__":
    main()
