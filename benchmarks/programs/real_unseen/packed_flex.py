"""Trains a small decoder on documents packed into one row of changing length, with document-causal masks through flex_attention."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.gate, self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(d, 3 * d), nn.Linear(3 * d, d)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = flex_attention(q, k, v, block_mask=mask)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class PackedLM(nn.Module):
    def __init__(self, vocab=4096, d=512, layers=3, heads=8, max_len=1024):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(max_len, d)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(d), nn.Linear(d, vocab, bias=False)

    def forward(self, ids, pos, mask):
        x = self.tok(ids) + self.pos(pos)
        for b in self.blocks:
            x = b(x, mask)
        return self.head(self.norm(x))


def pack(n_docs, vocab, gen):
    """Concatenate documents and round the total up to a multiple of 1024 with padding."""
    lens = torch.randint(100, 800, (n_docs,), generator=gen)
    total = int(-(-lens.sum() // 1024) * 1024)
    ids, pos = torch.zeros(total, dtype=torch.long), torch.zeros(total, dtype=torch.long)
    doc, labels = torch.full((total,), n_docs), torch.full((total,), -100)
    at = 0
    for i, n in enumerate(lens.tolist()):
        start, stride = torch.randint(0, vocab, (1,), generator=gen), torch.randint(1, 9, (1,), generator=gen)
        seq = (start + stride * torch.arange(n)) % vocab
        ids[at : at + n], pos[at : at + n], doc[at : at + n] = seq, torch.arange(n), i
        labels[at : at + n - 1] = seq[1:]
        at += n
    pos.clamp_(max=1023)
    return [t.cuda() for t in (ids[None], pos[None], doc, labels)]


def main():
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(21)
    model = PackedLM().to("cuda", torch.bfloat16)
    net = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
    losses, tokens = [], 0
    for step in range(20):
        ids, pos, doc, labels = pack(int(torch.randint(12, 18, (1,), generator=gen)), 4096, gen)

        def doc_causal(b, h, q, k):
            return (q >= k) & (doc[q] == doc[k])

        t = ids.shape[1]
        mask = create_block_mask(doc_causal, None, None, t, t, device="cuda")
        logits = net(ids, pos, mask)
        loss = F.cross_entropy(logits[0].float(), labels, ignore_index=-100)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        losses.append(loss.item())
        tokens += int((labels >= 0).sum())
    print("loss %.4f -> %.4f over %d tokens" % (losses[0], losses[-1], tokens))


if __name__ == "__main__":
    main()
