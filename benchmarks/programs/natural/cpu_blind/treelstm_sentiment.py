"""Child-sum Tree-LSTM for phrase-level sentiment on (synthetic) constituency trees.

A batch of trees is flattened into one forest; nodes are grouped by height and every height is
evaluated in one go, as in DGL's / DyNet's autobatching.
"""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, NEG, INTENS = 2000, 0, 1  # word 0 = "not", word 1 = "very"
EMB, HID, CLASSES = 128, 192, 5


class Node:
    __slots__ = ("word", "kids", "value", "height")

    def __init__(self, word=None, kids=()):
        self.word, self.kids = word, list(kids)
        self.height = 1 + max((k.height for k in self.kids), default=-1)
        self.value = 0.0


def make_tree(rng, words_value, n):
    """Random bracketing of n words; the sentiment is composed bottom-up."""
    leaves = []
    for _ in range(n):
        u = rng.random()
        w = NEG if u < 0.08 else INTENS if u < 0.16 else rng.randrange(2, VOCAB)
        leaf = Node(word=w)
        leaf.value = words_value[w]
        leaves.append(leaf)
    level = leaves
    while len(level) > 1:
        nxt, i = [], 0
        while i < len(level):
            k = min(rng.choice((1, 2, 2, 3)), len(level) - i)
            if k == 1:
                nxt.append(level[i])
            else:
                kids = level[i : i + k]
                node = Node(kids=kids)
                v = sum(c.value for c in kids)
                if any(c.word == NEG for c in kids):
                    v = -0.8 * v
                if any(c.word == INTENS for c in kids):
                    v = 1.5 * v
                node.value = max(-3.0, min(3.0, v))
                nxt.append(node)
            i += k
        level = nxt
    return level[0]


def label(v):
    return 0 if v < -1.2 else 1 if v < -0.3 else 2 if v < 0.3 else 3 if v < 1.2 else 4


def collate(trees):
    """Forest -> tensors.  levels[h] = (child ids, parent slot of each child, ids of the parents)."""
    nodes = []

    def visit(t):
        for k in t.kids:
            visit(k)
        nodes.append(t)

    roots = []
    for t in trees:
        visit(t)
        roots.append(t)
    nodes.sort(key=lambda n: n.height)
    index = {id(n): i for i, n in enumerate(nodes)}
    words = torch.tensor([n.word for n in nodes if n.height == 0])
    levels = []
    for h in range(1, max(n.height for n in nodes) + 1):
        child, slot, count = [], [], 0
        for n in nodes:
            if n.height == h:
                child += [index[id(k)] for k in n.kids]
                slot += [count] * len(n.kids)
                count += 1
        levels.append((torch.tensor(child), torch.tensor(slot), count))
    y = torch.tensor([label(n.value) for n in nodes])
    return words, levels, y, torch.tensor([index[id(r)] for r in roots])


class TreeLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, EMB)
        self.w_leaf = nn.Linear(EMB, 3 * HID)
        self.u_iou = nn.Linear(HID, 3 * HID)
        self.u_f = nn.Linear(HID, HID)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(HID, CLASSES)

    @staticmethod
    def _gate(iou, c_in):
        i, o, u = iou.chunk(3, -1)
        c = torch.sigmoid(i) * torch.tanh(u) + c_in
        return torch.sigmoid(o) * torch.tanh(c), c

    def forward(self, words, levels):
        h, c = self._gate(self.w_leaf(self.drop(self.emb(words))), 0.0)
        for child, slot, n in levels:
            hk, ck = h[child], c[child]
            h_sum = h.new_zeros(n, HID).index_add_(0, slot, hk)
            f = torch.sigmoid(self.u_f(hk))
            c_sum = c.new_zeros(n, HID).index_add_(0, slot, f * ck)
            hn, cn = self._gate(self.u_iou(h_sum), c_sum)
            h = torch.cat([h, hn])
            c = torch.cat([c, cn])
        return self.head(self.drop(h))


def evaluate(model, batches):
    model.eval()
    hit = hit_root = n = n_root = 0
    with torch.no_grad():
        for words, levels, y, roots in batches:
            p = model(words, levels).argmax(-1)
            hit += (p == y).sum().item()
            n += y.numel()
            hit_root += (p[roots] == y[roots]).sum().item()
            n_root += roots.numel()
    model.train()
    return hit / n, hit_root / n_root


def main():
    torch.manual_seed(3)
    rng = random.Random(3)
    value = [0.0, 0.0] + [rng.gauss(0, 0.7) if rng.random() < 0.5 else 0.0 for _ in range(VOCAB - 2)]

    def corpus(n):
        return [make_tree(rng, value, rng.randint(4, 36)) for _ in range(n)]

    train, dev = corpus(1600), corpus(256)
    dev_batches = [collate(dev[i : i + 64]) for i in range(0, len(dev), 64)]

    model = TreeLSTM()
    net = torch.compile(model, dynamic=True)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.03, weight_decay=1e-5)

    for epoch in range(4):
        rng.shuffle(train)
        total = 0.0
        for i in range(0, len(train), 32):
            words, levels, y, _ = collate(train[i : i + 32])
            loss = F.cross_entropy(net(words, levels), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            total += loss.item()
        acc, acc_root = evaluate(net, dev_batches)
        print(
            f"epoch {epoch}: loss {total / (len(train) / 32):.4f}  phrase acc {acc:.3f}  root acc {acc_root:.3f}"
        )


if __name__ == "__main__":
    main()
