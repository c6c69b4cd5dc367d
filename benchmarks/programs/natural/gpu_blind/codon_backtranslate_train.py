"""Train an encoder-decoder that writes the codons for a protein.

The encoder reads the amino acids, the decoder writes the coding sequence codon by codon, only among the synonyms of the
residue at hand, in the dialect of the host organism. T5-style relative position bias, pre-norm, bf16 autocast.
The training proteins are random; their codons are drawn from host-specific usage tables with a codon-pair effect.
"""

import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
GPU = device == "cuda"
D, HEADS, LAYERS = (512, 8, 3) if GPU else (32, 4, 1)
BATCH = 48 if GPU else 4
STEPS = 160 if GPU else 16
MIN_LEN, MAX_LEN = (120, 320) if GPU else (20, 60)
N_PROTEINS = 2000 if GPU else 80
HOSTS = 6

CODE = "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"
AMINO = "ACDEFGHIKLMNPQRSTVWY"
PAD_AA, PAD_CODON, BOS = 20, 64, 65
SYNONYMS = {a: [i for i, c in enumerate(CODE) if c == a] for a in AMINO}


def make_corpus(rng):
    usage = [[rng.expovariate(1.0) + 0.05 for _ in range(64)] for _ in range(HOSTS)]
    pair = [[rng.expovariate(1.0) + 0.2 for _ in range(16)] for _ in range(16)]
    corpus = []
    for _ in range(N_PROTEINS):
        host = rng.randrange(HOSTS)
        length = int(min(MAX_LEN, max(MIN_LEN, rng.gauss((MIN_LEN + MAX_LEN) / 2, (MAX_LEN - MIN_LEN) / 4))))
        protein, codons, prev = [], [], 0
        for _ in range(length):
            a = rng.choice(AMINO)
            syn = SYNONYMS[a]
            prev = rng.choices(syn, [usage[host][s] * pair[prev % 16][s // 4] for s in syn])[0]
            protein.append(AMINO.index(a))
            codons.append(prev)
        corpus.append((host, protein, codons))
    return corpus


def collate(items):
    longest = (max(len(p) for _, p, _ in items) + 7) // 8 * 8
    aa = torch.full((len(items), longest), PAD_AA)
    out = torch.full((len(items), longest), PAD_CODON)
    for i, (_, p, c) in enumerate(items):
        aa[i, : len(p)] = torch.tensor(p)
        out[i, : len(c)] = torch.tensor(c)
    shifted = torch.cat([torch.full((len(items), 1), BOS), out[:, :-1]], 1)
    return (
        torch.tensor([h for h, _, _ in items]).to(device),
        aa.to(device),
        shifted.to(device),
        out.to(device),
    )


class RelativeBias(nn.Module):
    def __init__(self, two_sided, buckets=32, far=128):
        super().__init__()
        self.table = nn.Embedding(buckets, HEADS)
        self.two_sided, self.buckets, self.far = two_sided, buckets, far

    def forward(self, t, dev):
        pos = torch.arange(t, device=dev)
        rel = pos[None, :] - pos[:, None]
        if self.two_sided:
            n = self.buckets // 2
            base, dist = (rel > 0).long() * n, rel.abs()
        else:
            n, base, dist = self.buckets, 0, (-rel).clamp(min=0)
        exact = n // 2
        log = (
            exact
            + (torch.log(dist.float().clamp(min=1) / exact) / math.log(self.far / exact) * (n - exact)).long()
        )
        bucket = base + torch.where(dist < exact, dist, log.clamp(max=n - 1))
        return self.table(bucket).permute(2, 0, 1).unsqueeze(0)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D, bias=False) for _ in range(4))

    def forward(self, x, mem, bias):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, HEADS, -1).transpose(1, 2)
        k = self.k(mem).view(b, mem.shape[1], HEADS, -1).transpose(1, 2)
        v = self.v(mem).view(b, mem.shape[1], HEADS, -1).transpose(1, 2)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias
        w = F.dropout(scores.float().softmax(-1).type_as(scores), 0.1, self.training)
        return self.o((w @ v).transpose(1, 2).reshape(b, t, D))


class Layer(nn.Module):
    def __init__(self, cross):
        super().__init__()
        self.n1, self.n2, self.n3 = nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(D)
        self.self_attn = Attention()
        self.cross_attn = Attention() if cross else None
        self.wi, self.wg, self.wo = nn.Linear(D, 3 * D), nn.Linear(D, 3 * D), nn.Linear(3 * D, D)

    def forward(self, x, bias, mem=None, mem_bias=None):
        h = self.n1(x)
        x = x + self.self_attn(h, h, bias)
        if self.cross_attn is not None:
            x = x + self.cross_attn(self.n3(x), mem, mem_bias)
        h = self.n2(x)
        return x + F.dropout(self.wo(F.gelu(self.wg(h)) * self.wi(h)), 0.1, self.training)


class BackTranslator(nn.Module):
    def __init__(self):
        super().__init__()
        self.aa, self.codon, self.host = nn.Embedding(21, D), nn.Embedding(66, D), nn.Embedding(HOSTS, D)
        self.enc_bias, self.dec_bias = RelativeBias(True), RelativeBias(False)
        self.enc = nn.ModuleList(Layer(False) for _ in range(LAYERS))
        self.dec = nn.ModuleList(Layer(True) for _ in range(LAYERS))
        self.norm_e, self.norm_d, self.head = nn.RMSNorm(D), nn.RMSNorm(D), nn.Linear(D, 64)
        allowed = torch.zeros(21, 64, dtype=torch.bool)
        for i, a in enumerate(AMINO):
            allowed[i, SYNONYMS[a]] = True
        allowed[PAD_AA] = True
        self.register_buffer("allowed", allowed)

    def forward(self, host, aa, shifted, target):
        t = aa.shape[1]
        pad = torch.zeros(aa.shape, device=aa.device).masked_fill(aa == PAD_AA, -1e9)[:, None, None, :]
        causal = torch.full((t, t), -1e9, device=aa.device).triu(1)
        tag = self.host(host).unsqueeze(1)
        x, bias = self.aa(aa) + tag, self.enc_bias(t, aa.device) + pad
        for layer in self.enc:
            x = layer(x, bias)
        mem = self.norm_e(x)
        y, bias = self.codon(shifted) + self.aa(aa) + tag, self.dec_bias(t, aa.device) + causal
        for layer in self.dec:
            y = layer(y, bias, mem, pad)
        logits = self.head(self.norm_d(y)).float().masked_fill(~self.allowed[aa], -1e9)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD_CODON)
        hits = ((logits.argmax(-1) == target) & (target != PAD_CODON)).sum()
        return loss, hits


def main():
    torch.manual_seed(5)
    rng = random.Random(5)
    corpus = make_corpus(rng)
    model = BackTranslator().to(device)
    step_model = torch.compile(model, dynamic=True)
    opt = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.98), weight_decay=0.01)
    warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 30))
    history, hits, seen = [], 0, 0
    for step in range(STEPS):
        batch = collate(rng.sample(corpus, BATCH))
        with torch.autocast(device, dtype=torch.bfloat16):
            loss, hit = step_model(*batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        warm.step()
        history.append(loss.item())
        hits, seen = hits + hit.item(), seen + (batch[-1] != PAD_CODON).sum().item()
        if (step + 1) % 40 == 0:
            print(f"step {step + 1}: loss {sum(history[-40:]) / 40:.4f}, codon recovery {hits / seen:.3f}")
            hits = seen = 0
    k = STEPS // 8
    print(
        f"first {sum(history[:k]) / k:.4f}, last {sum(history[-k:]) / k:.4f}, perplexity {math.exp(history[-1]):.3f}"
    )


if __name__ == "__main__":
    main()
