"""Natural language inference with the decomposable attention model (Parikh et al. 2016) on synthetic sentence pairs."""

import random
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

VOCAB = 8000
PAD = 0
EMBED, HIDDEN = 200, 200
BATCH = 64
STEPS = 120

random.seed(5)
torch.manual_seed(5)


def make_pair():
    """Entailment: a subset of the premise; contradiction: one word becomes its opposite (even <-> odd id); neutral: new words."""
    premise = [random.randint(2, VOCAB - 1) for _ in range(random.randint(10, 44))]
    keep = sorted(random.sample(range(len(premise)), k=random.randint(4, max(5, len(premise) // 2))))
    hyp = [premise[i] for i in keep]
    label = random.randint(0, 2)
    if label == 1:
        for j in random.sample(range(len(hyp)), k=2):
            hyp[j] = hyp[j] ^ 1
    elif label == 2:
        for _ in range(3):
            hyp.insert(random.randint(0, len(hyp)), random.randint(2, VOCAB - 1))
    return premise, hyp, label


def collate(pairs):
    p = pad_sequence([torch.tensor(x[0]) for x in pairs], batch_first=True, padding_value=PAD)
    h = pad_sequence([torch.tensor(x[1]) for x in pairs], batch_first=True, padding_value=PAD)
    return p, h, torch.tensor([x[2] for x in pairs])


def feedforward(n_in, n_out, p=0.2):
    return nn.Sequential(
        nn.Dropout(p), nn.Linear(n_in, n_out), nn.ReLU(), nn.Dropout(p), nn.Linear(n_out, n_out), nn.ReLU()
    )


class DecomposableAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, EMBED, padding_idx=PAD)
        self.project = nn.Linear(EMBED, HIDDEN, bias=False)
        self.attend = feedforward(HIDDEN, HIDDEN)
        self.compare = feedforward(2 * HIDDEN, HIDDEN)
        self.aggregate = nn.Sequential(feedforward(2 * HIDDEN, HIDDEN), nn.Linear(HIDDEN, 3))

    def forward(self, prem, hyp):
        mp, mh = prem.ne(PAD), hyp.ne(PAD)
        a, b = self.project(self.embed(prem)), self.project(self.embed(hyp))
        e = torch.bmm(self.attend(a), self.attend(b).transpose(1, 2))
        a2b = F.softmax(e.masked_fill(~mh[:, None, :], -1e9), dim=2)
        b2a = F.softmax(e.masked_fill(~mp[:, :, None], -1e9), dim=1)
        beta = torch.bmm(a2b, b)
        alpha = torch.bmm(b2a.transpose(1, 2), a)
        va = self.compare(torch.cat([a, beta], -1)) * mp[..., None]
        vb = self.compare(torch.cat([b, alpha], -1)) * mh[..., None]
        return self.aggregate(torch.cat([va.sum(1), vb.sum(1)], -1))


def batches(pairs, size):
    """Shuffle, then sort inside pools of twenty batches so that padding stays low."""
    random.shuffle(pairs)
    pool = size * 20
    for i in range(0, len(pairs), pool):
        chunk = sorted(pairs[i : i + pool], key=lambda x: len(x[0]))
        groups = [chunk[j : j + size] for j in range(0, len(chunk), size)]
        random.shuffle(groups)
        for g in groups:
            yield collate(g)


def main():
    train = [make_pair() for _ in range(BATCH * 60)]
    dev = [make_pair() for _ in range(BATCH * 8)]
    model = DecomposableAttention()
    model.compile()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    step, running, tokens = 0, 0.0, 0
    t0 = time.time()
    while step < STEPS:
        model.train()
        for p, h, y in batches(train, BATCH):
            loss = F.cross_entropy(model(p, h), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            running += loss.item()
            tokens += p.numel() + h.numel()
            step += 1
            if step % 30 == 0:
                print(f"step {step}  loss {running / 30:.4f}  {tokens / (time.time() - t0):.0f} tokens/s")
                running = 0.0
            if step == STEPS:
                break
    model.eval()
    hit = total = 0
    with torch.no_grad():
        for p, h, y in batches(dev, BATCH):
            hit += (model(p, h).argmax(1) == y).sum().item()
            total += len(y)
    print(f"dev accuracy {hit / total:.3f} of {total}")


if __name__ == "__main__":
    main()
