"""Embed a FASTA-sized set of proteins with an ESM-like encoder.

Sequences are packed into one long row up to a token budget (no padding), the
attention mask keeps them apart, and each protein is mean-pooled into one
vector for the nearest-neighbour index.  fp16, inference only.
"""

import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

AA = "ACDEFGHIKLMNPQRSTVWY"
BOS, EOS = 20, 21


def rope_tables(dim, max_len, device, base=10000.0):
    inv = base ** (-torch.arange(0, dim, 2, device=device).float() / dim)
    ang = torch.outer(torch.arange(max_len, device=device).float(), inv)
    ang = torch.cat([ang, ang], dim=-1)
    return ang.cos(), ang.sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)

    def forward(self, x, mask, cos, sin):
        t, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(t, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(1, 2, 0, 3)  # (H, T, dh)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask[None, None])
        x = x + self.proj(y[0].transpose(0, 1).reshape(t, d))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class ProteinEncoder(nn.Module):
    def __init__(self, dim=640, heads=10, layers=6, max_len=1024):
        super().__init__()
        self.embed = nn.Embedding(len(AA) + 2, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        cos, sin = rope_tables(dim // heads, max_len, "cpu")
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def forward(self, tokens, seq_id, pos):
        mask = seq_id[:, None] == seq_id[None, :]
        cos, sin = self.cos[pos], self.sin[pos]
        x = self.embed(tokens)
        for b in self.blocks:
            x = b(x, mask, cos, sin)
        return self.norm(x)


def pool_proteins(hidden, lengths):
    """Mean over the residues of each protein (without BOS/EOS), unit length."""
    out = []
    for h in hidden.split(lengths):
        out.append(h[1:-1].float().mean(dim=0))
    return F.normalize(torch.stack(out), dim=-1)


def fake_fasta(n, rng):
    lengths = np.clip(rng.gamma(7.0, 52.0, size=n), 60, 900).astype(int)
    return [rng.integers(0, len(AA), size=k) for k in lengths]


def pack(seqs, budget):
    """Greedy packing in file order."""
    batch, used = [], 0
    for s in seqs:
        need = len(s) + 2
        if used + need > budget and batch:
            yield batch
            batch, used = [], 0
        batch.append(s)
        used += need
    if batch:
        yield batch


def collate(batch, device):
    tokens = np.concatenate([np.r_[BOS, s, EOS] for s in batch])
    lengths = [len(s) + 2 for s in batch]
    seq_id = np.repeat(np.arange(len(batch)), lengths)
    pos = np.concatenate([np.arange(k) for k in lengths])
    to = lambda a: torch.from_numpy(a.astype(np.int64)).to(device)
    return to(tokens), to(seq_id), to(pos), lengths


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--proteins", type=int, default=480)
    p.add_argument("--budget", type=int, default=4096)
    p.add_argument("--layers", type=int, default=6)
    p.add_argument("--warmup", type=int, default=2)
    p.add_argument("--seed", type=int, default=5)
    args = p.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)

    model = ProteinEncoder(layers=args.layers).to(device).eval()
    if device == "cuda":
        model = model.half()
    encode = torch.compile(model, dynamic=True)
    pool = torch.compile(pool_proteins)

    batches = list(pack(fake_fasta(args.proteins, rng), args.budget))
    vectors, residues, t0 = [], 0, time.perf_counter()
    per_batch = []
    with torch.inference_mode():
        for i, batch in enumerate(batches):
            if i == args.warmup:  # compiled by now
                if device == "cuda":
                    torch.cuda.synchronize()
                t0, residues = time.perf_counter(), 0
            tic = time.perf_counter()
            tokens, seq_id, pos, lengths = collate(batch, device)
            hidden = encode(tokens, seq_id, pos)
            vectors.append(pool(hidden, lengths).cpu())
            residues += tokens.numel()
            per_batch.append(time.perf_counter() - tic)
        elapsed = time.perf_counter() - t0

    emb = torch.cat(vectors)
    sim = emb @ emb.T
    sim.fill_diagonal_(-1)
    print(
        f"{len(emb)} proteins in {len(batches)} batches, mean top-1 cosine {sim.max(dim=1).values.mean():.4f}"
    )
    print(
        f"median {1e3 * np.median(per_batch[args.warmup :]):.2f} ms/batch, "
        f"total {elapsed:.2f} s, {residues / elapsed / 1e3:.1f}k residues/s"
    )


if __name__ == "__main__":
    main()
