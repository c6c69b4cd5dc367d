"""Beam search with a GRU decoder attending over encoder states."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

BATCH = 32
BEAM = 8
VOCAB = int(32000 * SCALE)
DIM = 512
SRC = 48
MAX_LEN = 66
EOS, BOS = 2, 1


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.cell = nn.GRUCell(2 * DIM, DIM)
        self.query = nn.Linear(DIM, DIM)
        self.out = nn.Linear(2 * DIM, VOCAB)

    def forward(self, tok, h, ctx, memory):
        h = self.cell(torch.cat([self.emb(tok), ctx], -1), h)
        q = self.query(h).view(BATCH, BEAM, DIM)
        att = torch.softmax(q @ memory.transpose(1, 2) / DIM**0.5, -1)
        ctx = (att @ memory).reshape(BATCH * BEAM, DIM)
        return self.out(torch.cat([h, ctx], -1)), h, ctx


class BeamSearcher:
    def __init__(self, decoder, alpha=0.6):
        self.decoder = decoder
        self.alpha = alpha
        self.offset = (torch.arange(BATCH, device=device) * BEAM)[:, None]

    def start(self):
        n = BATCH * BEAM
        scores = torch.full((BATCH, BEAM), -1e9, device=device)
        scores[:, 0] = 0
        token = torch.full((n,), BOS, device=device)
        seen = torch.zeros(n, VOCAB, dtype=torch.bool, device=device)
        h = torch.zeros(n, DIM, device=device)
        return token, seen, scores, torch.zeros(n, dtype=torch.bool, device=device), h, torch.zeros_like(h)

    @torch.compile
    def step(self, token, seen, scores, done, h, ctx, memory):
        logits, h, ctx = self.decoder(token, h, ctx, memory)

        # discourage tokens that were already produced
        logits = torch.where(seen, torch.where(logits > 0, logits / 1.2, logits * 1.2), logits)
        logp = F.log_softmax(logits, -1)

        # finished hypotheses may only be continued with EOS at no cost
        only_eos = torch.full_like(logp, -1e9)
        only_eos[:, EOS] = 0
        logp = torch.where(done[:, None], only_eos, logp)

        total = (scores.view(-1, 1) + logp).view(BATCH, BEAM * VOCAB)
        scores, idx = total.topk(BEAM, dim=-1)
        parent = (idx // VOCAB + self.offset).view(-1)
        token = (idx % VOCAB).view(-1)

        seen = seen[parent].scatter(1, token[:, None], True)
        done = done[parent] | (token == EOS)
        finished = int(done.sum().item())
        return token, parent, seen, scores, done, h[parent], ctx[parent], finished


def trace_back(tokens, parents):
    """Follow the back pointers from the last step to the first."""
    cur = torch.arange(BATCH * BEAM, device=device)
    out = []
    for tok, par in zip(reversed(tokens), reversed(parents)):
        out.append(tok[cur])
        cur = par[cur]
    return torch.stack(out[::-1], 1)


@torch.no_grad()
def main():
    torch.manual_seed(11)
    decoder = Decoder().to(device).eval()
    memory = torch.randn(BATCH, SRC, DIM, device=device)
    searcher = BeamSearcher(decoder)

    token, seen, scores, done, h, ctx = searcher.start()
    tokens, parents, times = [], [], []
    for _ in range(MAX_LEN):
        t0 = time.perf_counter()
        token, parent, seen, scores, done, h, ctx, finished = searcher.step(
            token, seen, scores, done, h, ctx, memory
        )
        times.append(time.perf_counter() - t0)
        tokens.append(token)
        parents.append(parent)
        if finished == BATCH * BEAM:
            break

    texts = trace_back(tokens, parents)
    length = (texts != EOS).sum(1).view(BATCH, BEAM).float()
    ranked = scores / ((5 + length) / 6) ** searcher.alpha
    steady = times[6:]
    print(f"best score {ranked.max().item():.4f}, finished {finished}, token checksum {texts.sum().item()}")
    print(f"{sum(steady) / len(steady) * 1e3:.3f} ms per step over {len(steady)} steps")


if __name__ == "__main__":
    main()
