"""Learns byte-pair-encoding merges on a corpus held as one long tensor of symbols, then encodes new text.

A made-up language: words of random syllables with Zipf frequencies.  Symbol 0 is the space that begins a word;
no pair may run across the beginning of a word.
"""

import random
import time

import torch

SPACE = 0
ALPHABET = " abcdefghijklmnopqrstuvwxyz"


def make_lexicon(rng, size):
    onsets = [
        "b",
        "br",
        "d",
        "f",
        "g",
        "k",
        "kl",
        "l",
        "m",
        "n",
        "p",
        "r",
        "s",
        "st",
        "t",
        "tr",
        "v",
        "z",
        "",
    ]
    nuclei = ["a", "e", "i", "o", "u", "ai", "ou", "ee"]
    codas = ["", "", "", "n", "r", "s", "l", "t", "nd", "st"]
    words = set()
    while len(words) < size:
        syllables = rng.choice([1, 2, 2, 3, 3, 4])
        words.add(
            "".join(rng.choice(onsets) + rng.choice(nuclei) + rng.choice(codas) for _ in range(syllables))
        )
    return sorted(words)


def make_text(lexicon, n_words, seed):
    rng = random.Random(seed)
    order = list(lexicon)
    random.Random(5).shuffle(order)
    weights = [1.0 / (i + 3) for i in range(len(order))]
    text = "".join(" " + w for w in rng.choices(order, weights, k=n_words))
    lut = torch.zeros(256, dtype=torch.long)
    for i, ch in enumerate(ALPHABET):
        lut[ord(ch)] = i
    raw = torch.frombuffer(bytearray(text, "ascii"), dtype=torch.uint8)
    return lut[raw.long()], text


class BPE:
    def __init__(self, vocab_size):
        self.vocab_size = vocab_size
        self.merges = []
        self.names = list(ALPHABET)

    @torch.compile
    def best_pair(self, ids, starts):
        """Most frequent adjacent pair, as (code, count)."""
        left, right = ids[:-1], ids[1:]
        inside = ~starts[right]
        codes = left * self.vocab_size + right
        counts = torch.bincount(codes[inside], minlength=self.vocab_size**2)
        count, code = counts.max(0)
        return code, count

    @torch.compile
    def merge(self, ids, a, b, new_id):
        match = torch.zeros_like(ids, dtype=torch.bool)
        match[:-1] = (ids[:-1] == a) & (ids[1:] == b)
        # in runs such as "aaa" only the first pair is merged
        match[1:] &= ~match[:-1]
        out = torch.where(match, new_id, ids)
        keep = torch.ones_like(match)
        keep[1:] = ~match[:-1]
        return out[keep]

    def train(self, ids):
        starts = torch.zeros(self.vocab_size, dtype=torch.bool)
        starts[SPACE] = True
        while len(self.names) < self.vocab_size:
            code, count = self.best_pair(ids, starts)
            a, b = divmod(code.item(), self.vocab_size)
            if count.item() < 2:
                break
            new_id = len(self.names)
            self.names.append(self.names[a] + self.names[b])
            starts[new_id] = bool(starts[a])
            self.merges.append((a, b, new_id))
            ids = self.merge(ids, a, b, new_id)
        return ids

    def encode(self, ids):
        for a, b, new_id in self.merges:
            ids = self.merge(ids, a, b, new_id)
        return ids

    def decode(self, ids):
        return "".join(self.names[i] for i in ids.tolist())


def main():
    rng = random.Random(1)
    lexicon = make_lexicon(rng, 6000)
    ids, _ = make_text(lexicon, 200_000, seed=2)
    bpe = BPE(vocab_size=400)

    start = time.perf_counter()
    trained = bpe.train(ids)
    print(
        f"{len(bpe.merges)} merges in {time.perf_counter() - start:.2f} s: "
        f"{len(ids)} symbols became {len(trained)} ({len(ids) / len(trained):.2f} letters per token)"
    )
    longest = sorted(bpe.names, key=len)[-8:]
    print("longest tokens:", longest)

    total_in = total_out = 0
    exact = True
    for doc in range(3):
        doc_ids, text = make_text(lexicon, 20_000, seed=100 + doc)
        tokens = bpe.encode(doc_ids)
        exact &= bpe.decode(tokens) == text
        total_in += len(doc_ids)
        total_out += len(tokens)
    print(f"held-out text: {total_in / total_out:.2f} letters per token, round trip exact: {exact}")
    usage = torch.bincount(trained, minlength=bpe.vocab_size).double()
    p = usage / usage.sum()
    entropy = -(p[p > 0] * p[p > 0].log2()).sum()
    print(f"unigram entropy {entropy:.3f} bits per token")


if __name__ == "__main__":
    main()
