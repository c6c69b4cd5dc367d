"""Token classification on document pages (text + boxes), batch inference."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, N_LABELS = 4000, 9
DIM, HEADS, LAYERS = 128, 4, 4
BUCKETS = 32
LABELS = ["other", "title", "para", "table", "caption", "header", "footer", "list", "figure"]


class LayoutBias(nn.Module):
    """Per-head attention bias from relative x / y positions of token boxes."""

    def __init__(self):
        super().__init__()
        self.bx = nn.Embedding(2 * BUCKETS + 1, HEADS)
        self.by = nn.Embedding(2 * BUCKETS + 1, HEADS)

    def forward(self, boxes):
        cx = (boxes[..., 0] + boxes[..., 2]) / 2
        cy = (boxes[..., 1] + boxes[..., 3]) / 2
        rx = cx[:, :, None] - cx[:, None, :]
        ry = cy[:, :, None] - cy[:, None, :]
        ix = (rx * BUCKETS).round().clamp(-BUCKETS, BUCKETS).long() + BUCKETS
        iy = (ry * BUCKETS).round().clamp(-BUCKETS, BUCKETS).long() + BUCKETS
        return (self.bx(ix) + self.by(iy)).permute(0, 3, 1, 2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)
        self.ff1, self.ff2 = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x, bias):
        B, L, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(B, L, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = x + self.out(a.transpose(1, 2).reshape(B, L, DIM))
        return x + self.ff2(F.gelu(self.ff1(self.n2(x))))


class LayoutTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM, padding_idx=0)
        self.box = nn.Linear(4, DIM)
        self.bias = LayoutBias()
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, N_LABELS)

    def forward(self, tokens, boxes):
        pad = tokens == 0
        x = self.tok(tokens) + self.box(boxes)
        bias = self.bias(boxes).masked_fill(pad[:, None, None, :], -1e4)
        for blk in self.blocks:
            x = blk(x, bias)
        return self.head(self.norm(x)).softmax(-1)


def make_pages(n, gen):
    pages = []
    for _ in range(n):
        L = int(torch.randint(40, 330, (1,), generator=gen))
        tok = torch.randint(1, VOCAB, (L,), generator=gen)
        xy = torch.rand(L, 2, generator=gen) * 0.9
        wh = torch.rand(L, 2, generator=gen) * 0.1
        pages.append((tok, torch.cat([xy, xy + wh], 1)))
    return pages


def collate(pages):
    toks = nn.utils.rnn.pad_sequence([p[0] for p in pages], batch_first=True)
    boxes = nn.utils.rnn.pad_sequence([p[1] for p in pages], batch_first=True)
    return toks, boxes


def main():
    torch.manual_seed(0)
    torch.set_num_threads(2)
    gen = torch.Generator().manual_seed(42)
    model = LayoutTagger().eval()
    model = torch.compile(model)

    pages = make_pages(180, gen)
    counts = torch.zeros(N_LABELS, dtype=torch.long)
    n_tok, start = 0, time.perf_counter()
    with torch.inference_mode():
        for i in range(0, len(pages), 4):
            toks, boxes = collate(pages[i : i + 4])
            t0 = time.perf_counter()
            probs = model(toks, boxes)
            ms = 1e3 * (time.perf_counter() - t0)
            pred = probs.argmax(-1)[toks != 0]
            counts += torch.bincount(pred, minlength=N_LABELS)
            n_tok += pred.numel()
            if (i // 4) % 5 == 0:
                print(f"batch {i // 4:3d}  shape {tuple(toks.shape)}  {ms:8.1f} ms")
    dt = time.perf_counter() - start
    print(f"{len(pages)} pages, {n_tok} tokens in {dt:.1f} s")
    for name, c in zip(LABELS, counts.tolist()):
        print(f"  {name:8s} {c}")


if __name__ == "__main__":
    main()
