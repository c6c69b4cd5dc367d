"""Embed a proteome with a small protein transformer.

Sequences are sorted by length and packed in groups, so that every group is
padded only to its own longest member.  The output is a mean-pooled embedding
per protein, used for a nearest-neighbour search of homologues.
"""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = "cuda"
PAD = 20  # 0..19 are the amino acids


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.proj(a.transpose(1, 2).reshape(b, n, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class ProteinEncoder(nn.Module):
    def __init__(self, dim=320, heads=5, layers=6, max_len=1024):
        super().__init__()
        self.residue = nn.Embedding(PAD + 1, dim, padding_idx=PAD)
        self.place = nn.Embedding(max_len, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)

    def forward(self, tokens):
        real = tokens != PAD
        where = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.residue(tokens) + self.place(where)
        mask = real[:, None, None, :]
        for block in self.blocks:
            x = block(x, mask)
        x = self.norm(x) * real.unsqueeze(-1)
        return x.sum(1) / real.sum(1, keepdim=True)


class Proteome:
    """Families of related sequences: an ancestor and mutated copies."""

    def __init__(self, families, members, seed=9):
        g = torch.Generator().manual_seed(seed)
        self.seqs, self.family = [], []
        for fam in range(families):
            n = int(torch.empty(1).log_normal_(5.75, 0.42, generator=g).clamp(70, 900))
            ancestor = torch.randint(0, 20, (n,), generator=g)
            for _ in range(members):
                s = ancestor.clone()
                hit = torch.rand(n, generator=g) < 0.15
                s[hit] = torch.randint(0, 20, (int(hit.sum()),), generator=g)
                cut = int(torch.randint(0, max(2, n // 12), (1,), generator=g))
                self.seqs.append(s[cut:])
                self.family.append(fam)

    def groups(self, size):
        order = sorted(range(len(self.seqs)), key=lambda i: len(self.seqs[i]))
        for lo in range(0, len(order), size):
            ids = order[lo : lo + size]
            longest = max(len(self.seqs[i]) for i in ids)
            tokens = torch.full((len(ids), longest), PAD)
            for row, i in enumerate(ids):
                tokens[row, : len(self.seqs[i])] = self.seqs[i]
            yield ids, tokens


def main():
    torch.manual_seed(4)
    proteome = Proteome(families=190, members=6)
    encoder = ProteinEncoder().to(DEVICE, torch.bfloat16).eval()
    embed = torch.compile(encoder, mode="reduce-overhead", dynamic=True)

    total = len(proteome.seqs)
    out = torch.zeros(total, 320, device=DEVICE)
    times = []
    with torch.inference_mode():
        for step, (ids, tokens) in enumerate(proteome.groups(30)):
            tokens = tokens.to(DEVICE)
            torch.cuda.synchronize()
            t0 = time.perf_counter()
            vec = embed(tokens)
            torch.cuda.synchronize()
            times.append((time.perf_counter() - t0) * 1e3)
            out[torch.tensor(ids, device=DEVICE)] = vec.float()
            print(f"group {step:2d}: {tuple(tokens.shape)}  {times[-1]:9.3f} ms")

    unit = F.normalize(out - out.mean(0), dim=1)
    sim = unit @ unit.t()
    sim.fill_diagonal_(-1.0)
    fam = torch.tensor(proteome.family, device=DEVICE)
    hit = (fam[sim.argmax(1)] == fam).float().mean().item()
    late = sorted(times[8:])
    print(f"{total} proteins, median {late[len(late) // 2]:.3f} ms per group after the first 8")
    print(f"nearest neighbour is a relative for {100 * hit:.1f} % of the proteins")


if __name__ == "__main__":
    main()
