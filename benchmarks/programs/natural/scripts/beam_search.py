"""Beam search with a small GRU decoder, attention over a source, early stop."""

import torch
import torch.nn as nn
import torch.nn.functional as F

V, H, S, BEAM, EOS = 4000, 256, 40, 8, 2


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, H)
        self.cell = nn.GRUCell(2 * H, H)
        self.query = nn.Linear(H, H, bias=False)
        self.out = nn.Linear(2 * H, V)

    def forward(self, token, state, memory, mask):
        score = torch.einsum("bh,bsh->bs", self.query(state), memory)
        score = score.masked_fill(~mask, -1e9)
        context = torch.einsum("bs,bsh->bh", F.softmax(score, -1), memory)
        state = self.cell(torch.cat([self.emb(token), context], -1), state)
        return F.log_softmax(self.out(torch.cat([state, context], -1)), -1), state


@torch.no_grad()
def search(step, memory, mask, limit=40):
    n = memory.shape[0]
    memory = memory.repeat_interleave(BEAM, 0)
    mask = mask.repeat_interleave(BEAM, 0)
    state = memory.mean(1)
    token = torch.ones(n * BEAM, dtype=torch.long)
    total = torch.full((n, BEAM), -1e9)
    total[:, 0] = 0
    done = torch.zeros(n, BEAM, dtype=torch.bool)
    seqs = token.view(n, BEAM, 1)
    for _ in range(limit):
        logp, state = step(token, state, memory, mask)
        logp = logp.view(n, BEAM, V)
        logp[done] = -1e9
        logp[..., EOS][done] = 0.0
        best, index = (total[..., None] + logp).view(n, -1).topk(BEAM)
        parent, token = index // V, index % V
        total = best
        rows = (torch.arange(n)[:, None] * BEAM + parent).view(-1)
        state = state[rows]
        done = done.gather(1, parent) | (token == EOS)
        seqs = torch.cat([seqs.gather(1, parent[..., None].expand_as(seqs)), token[..., None]], -1)
        token = token.view(-1)
        if done.all().item():
            break
    return seqs[:, 0]


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Decoder().eval()
    step = torch.compile(model)
    for n in (4, 4, 3, 4, 1):
        memory = torch.randn(n, S, H)
        length = torch.randint(10, S, (n,))
        mask = torch.arange(S)[None] < length[:, None]
        print(search(step, memory, mask).shape)
