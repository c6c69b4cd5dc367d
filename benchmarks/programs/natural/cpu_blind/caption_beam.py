"""Image captioning job: grid features -> caption by beam search.

Transformer decoder with a growing key/value cache; beams are re-ordered after
every token. Only the decoder step is compiled, the search is on the host.
"""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)

VOCAB, D, HEADS, LAYERS = 8000, 384, 6, 4
BOS, EOS = 1, 2
BEAM, MAX_LEN = 5, 24
LENGTH_PENALTY = 0.7


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(D, 3 * D)
        self.proj = nn.Linear(D, D)
        self.xq = nn.Linear(D, D)
        self.xkv = nn.Linear(D, 2 * D)
        self.xproj = nn.Linear(D, D)
        self.up = nn.Linear(D, 4 * D)
        self.down = nn.Linear(4 * D, D)
        self.n1, self.n2, self.n3 = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)

    @staticmethod
    def split(t):
        b, n, _ = t.shape
        return t.view(b, n, HEADS, D // HEADS).transpose(1, 2)

    @staticmethod
    def merge(t):
        return t.transpose(1, 2).flatten(2)

    def memory(self, feats):
        k, v = self.xkv(feats).chunk(2, -1)
        return self.split(k), self.split(v)

    def forward(self, x, past, mem):
        q, k, v = (self.split(t) for t in self.qkv(self.n1(x)).chunk(3, -1))
        if past is not None:
            k = torch.cat([past[0], k], 2)
            v = torch.cat([past[1], v], 2)
        x = x + self.proj(self.merge(F.scaled_dot_product_attention(q, k, v)))
        q = self.split(self.xq(self.n2(x)))
        x = x + self.xproj(self.merge(F.scaled_dot_product_attention(q, mem[0], mem[1])))
        x = x + self.down(F.gelu(self.up(self.n3(x))))
        return x, (k, v)


class Captioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, D)
        self.pos = nn.Embedding(MAX_LEN + 1, D)
        self.layers = nn.ModuleList(DecoderLayer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(D)
        self.feat = nn.Linear(512, D)

    def encode(self, grid):
        f = self.feat(grid)
        return [layer.memory(f) for layer in self.layers]

    def step(self, tok, t, past, mem):
        x = self.embed(tok)[:, None] + self.pos.weight[t]
        new = []
        for i, layer in enumerate(self.layers):
            x, kv = layer(x, None if past is None else past[i], mem[i])
            new.append(kv)
        logits = self.norm(x[:, 0]) @ self.embed.weight.t()
        return torch.log_softmax(logits, -1), new


@torch.inference_mode()
def beam_search(model, step, grid):
    b = grid.size(0)
    mem = [(k.repeat_interleave(BEAM, 0), v.repeat_interleave(BEAM, 0)) for k, v in model.encode(grid)]
    tok = torch.full((b * BEAM,), BOS)
    score = torch.full((b, BEAM), -1e9)
    score[:, 0] = 0
    done = torch.zeros(b, BEAM, dtype=torch.bool)
    length = torch.zeros(b, BEAM)
    seqs = torch.full((b, BEAM, MAX_LEN), EOS)
    past = None
    for t in range(MAX_LEN):
        logp, past = step(tok, t, past, mem)
        logp = logp.view(b, BEAM, VOCAB)
        # finished beams may only emit EOS, at no cost
        logp[done] = -1e9
        logp[..., EOS] = torch.where(done, torch.zeros(()), logp[..., EOS])
        total = score[..., None] + logp
        score, flat = total.view(b, -1).topk(BEAM, dim=1)
        parent, word = flat // VOCAB, flat % VOCAB
        seqs = seqs.gather(1, parent[..., None].expand_as(seqs))
        seqs[:, :, t] = word
        length = length.gather(1, parent) + (~done.gather(1, parent)).float()
        done = done.gather(1, parent) | (word == EOS)
        rows = (parent + torch.arange(b)[:, None] * BEAM).flatten()
        past = [(k.index_select(0, rows), v.index_select(0, rows)) for k, v in past]
        tok = word.flatten()
        if bool(done.all()):
            break
    best = (score / length.clamp(min=1) ** LENGTH_PENALTY).argmax(1)
    return seqs[torch.arange(b), best], t + 1


def main():
    model = Captioner().eval()
    with torch.no_grad():
        model.embed.weight.mul_(0.15)
    step = torch.compile(model.step)
    images = torch.randn(160, 49, 512)
    tokens = steps = 0
    lat = []
    for batch in images.split(8):
        t0 = time.perf_counter()
        caps, n = beam_search(model, step, batch)
        lat.append(time.perf_counter() - t0)
        steps += n
        tokens += int((caps != EOS).sum())
    lat = sorted(lat)
    print(f"{len(images)} images, {tokens} tokens, {steps} decoder steps")
    print(f"median batch {lat[len(lat) // 2] * 1e3:.0f} ms, worst {lat[-1] * 1e3:.0f} ms")
    print("sample:", caps[0, :10].tolist())


if __name__ == "__main__":
    main()
