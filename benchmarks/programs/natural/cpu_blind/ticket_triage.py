"""Nightly triage of helpdesk tickets with a small early-exit transformer.

Tickets come in arrival order, so batches are padded to their longest ticket.
After each block a probe head decides whether the whole batch is already sure.
The weights are random here apart from a quick fit of the probe heads.
"""

import random
import zlib

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, DIM, HEADS, LAYERS, QUEUES = 8192, 256, 4, 6, 5
MAX_LEN = 192
WORDS = {
    "network": "vpn wifi router dns latency firewall switch packet cable proxy".split(),
    "billing": "invoice refund charge card tax receipt payment overdue discount euro".split(),
    "account": "password login locked email reset token profile username mfa expired".split(),
    "printer": "toner paper jam tray driver scan duplex queue spooler offline".split(),
    "laptop": "battery screen keyboard fan charger boot bluescreen disk hinge slow".split(),
}
FILLER = (
    "hello please the my is not working since yesterday again and when i try it says error "
    "could you help thanks we have urgent customer meeting still same problem"
).split()
LABELS = list(WORDS)


def make_ticket(rng):
    label = rng.randrange(QUEUES)
    n = min(MAX_LEN + 20, max(6, int(rng.lognormvariate(3.4, 0.6))))
    topic = WORDS[LABELS[label]]
    return " ".join(rng.choice(topic) if rng.random() < 0.3 else rng.choice(FILLER) for _ in range(n)), label


def tokenise(text):
    return [1] + [2 + zlib.crc32(w.encode()) % (VOCAB - 2) for w in text.split()]


def collate(texts):
    rows = [tokenise(t)[:MAX_LEN] for t in texts]
    width = max(map(len, rows))
    return torch.tensor([r + [0] * (width - len(r)) for r in rows])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x, mask):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, DIM))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Triage(nn.Module):
    def __init__(self, sure=0.97):
        super().__init__()
        self.emb, self.pos = nn.Embedding(VOCAB, DIM), nn.Embedding(MAX_LEN, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.heads = nn.ModuleList(nn.Linear(DIM, QUEUES) for _ in range(LAYERS))
        self.sure = sure

    def pooled(self, ids):
        keep = ids != 0
        mask = keep[:, None, None, :]
        x = self.emb(ids) + 0.1 * self.pos.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, mask)
            yield (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)

    def forward(self, ids):
        keep = ids != 0
        mask = keep[:, None, None, :]
        x = self.emb(ids) + 0.1 * self.pos.weight[: ids.shape[1]]
        for depth, (block, head) in enumerate(zip(self.blocks, self.heads), 1):
            x = block(x, mask)
            pooled = (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)
            prob = head(pooled).softmax(-1)
            if prob.max(-1).values.min() > self.sure:
                break
        return prob, depth


def fit_heads(model, rng):
    """Ridge regression of each probe head on 400 labelled tickets."""
    tickets = [make_ticket(rng) for _ in range(400)]
    y = F.one_hot(torch.tensor([l for _, l in tickets]), QUEUES).float()
    feats = [
        torch.cat(c)
        for c in zip(
            *(list(model.pooled(collate([t for t, _ in tickets[i : i + 40]]))) for i in range(0, 400, 40))
        )
    ]
    for head, f in zip(model.heads, feats):
        mu = f.mean(0)
        g = (f - mu).T @ (f - mu) + 0.5 * torch.eye(DIM)
        w = torch.linalg.solve(g, (f - mu).T @ (y - y.mean(0))) * 12.0
        head.weight.copy_(w.T)
        head.bias.copy_(-mu @ w)


@torch.no_grad()
def main():
    torch.manual_seed(1)
    rng = random.Random(1)
    model = Triage().eval()
    fit_heads(model, rng)
    tickets = [make_ticket(rng) for _ in range(16 * 150)]
    route = torch.compile(model)
    hits, depths = 0, [0] * (LAYERS + 1)
    for i in range(0, len(tickets), 16):
        texts, labels = zip(*tickets[i : i + 16])
        prob, depth = route(collate(texts))
        depths[depth] += 1
        hits += int((prob.argmax(-1) == torch.tensor(labels)).sum())
    print(f"routed {len(tickets)} tickets, accuracy {hits / len(tickets):.3f}")
    print("exit depth histogram:", depths[1:])


if __name__ == "__main__":
    main()
