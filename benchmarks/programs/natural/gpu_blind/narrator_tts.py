"""Batch narration of book sentences: non-autoregressive TTS acoustic model (FastSpeech style), half precision.
Phonemes -> encoder -> durations/pitch -> length regulator -> decoder -> mel. Weights are random here (seeded)."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cuda" if torch.cuda.is_available() else "cpu"
DT = torch.float16 if DEV == "cuda" else torch.float32
D = 64 if SMOKE else 384
HEADS = 2 if SMOKE else 6
LAYERS = 2 if SMOKE else 4
BATCH = 3 if SMOKE else 24
N_BATCHES = 6 if SMOKE else 160
HOP_S = 256 / 22050


def sinusoid(n, d, device):
    pos = torch.arange(n, device=device).float()[:, None]
    inv = torch.exp(torch.arange(0, d, 2, device=device).float() * (-9.21 / d))
    return torch.cat([torch.sin(pos * inv), torch.cos(pos * inv)], 1)


class FFTBlock(nn.Module):
    def __init__(self, d, heads, ff=4, k=9):
        super().__init__()
        self.h = heads
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.c1 = nn.Conv1d(d, ff * d, k, padding=k // 2)
        self.c2 = nn.Conv1d(ff * d, d, 1)

    def forward(self, x, keep):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, None, :])
        x = self.n1(x + self.out(a.transpose(1, 2).reshape(b, t, d)))
        x = x * keep.unsqueeze(-1)
        y = self.c2(F.relu(self.c1(x.transpose(1, 2)))).transpose(1, 2)
        return self.n2(x + y) * keep.unsqueeze(-1)


class Predictor(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.c1, self.c2 = nn.Conv1d(d, d, 3, padding=1), nn.Conv1d(d, d, 3, padding=1)
        self.n1, self.n2, self.o = nn.LayerNorm(d), nn.LayerNorm(d), nn.Linear(d, 1)

    def forward(self, x, keep):
        x = self.n1(F.relu(self.c1(x.transpose(1, 2))).transpose(1, 2)) * keep.unsqueeze(-1)
        x = self.n2(F.relu(self.c2(x.transpose(1, 2))).transpose(1, 2))
        return self.o(x).squeeze(-1) * keep


class Narrator(nn.Module):
    def __init__(self, vocab=80, d=D):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, padding_idx=0)
        self.enc = nn.ModuleList(FFTBlock(d, HEADS) for _ in range(LAYERS))
        self.dec = nn.ModuleList(FFTBlock(d, HEADS) for _ in range(LAYERS))
        self.dur, self.pitch = Predictor(d), Predictor(d)
        self.register_buffer("edges", torch.linspace(-2, 2, 63))
        self.pitch_emb = nn.Embedding(64, d)
        self.mel = nn.Linear(d, 80)
        self.post = nn.ModuleList(
            nn.Conv1d(a, b, 5, padding=2) for a, b in ((80, 256), (256, 256), (256, 80))
        )

    def expand(self, x, dur):
        """Repeat every phoneme state for its number of frames."""
        rows = [torch.repeat_interleave(x[i], dur[i], dim=0) for i in range(x.shape[0])]
        lens = dur.sum(1)
        return pad_sequence(rows, batch_first=True), lens

    def forward(self, ids, pace):
        keep = ids != 0
        x = self.emb(ids) + sinusoid(ids.shape[1], self.emb.embedding_dim, ids.device).to(
            self.emb.weight.dtype
        )
        for blk in self.enc:
            x = blk(x, keep)
        logd = self.dur(x, keep).float()
        dur = (torch.exp(logd.clamp(-1, 1) + 1.7) * pace).round().long().clamp(1, 20) * keep
        p = self.pitch(x, keep)
        x = x + self.pitch_emb(torch.bucketize(p.float(), self.edges.float()))
        y, lens = self.expand(x, dur)
        frames = torch.arange(y.shape[1], device=y.device)
        fkeep = frames[None] < lens[:, None]
        y = y + sinusoid(y.shape[1], y.shape[2], y.device).to(y.dtype)
        for blk in self.dec:
            y = blk(y, fkeep)
        m = self.mel(y)
        return self.postnet(m, fkeep), lens

    def postnet(self, m, fkeep):
        # masked between the layers: padding must not leak into a sentence's last frames
        row = fkeep.unsqueeze(1)
        r = m.transpose(1, 2) * row
        for i, conv in enumerate(self.post):
            r = conv(r) * row
            if i < 2:
                r = torch.tanh(r)
        return (m + r.transpose(1, 2)) * fkeep.unsqueeze(-1)


def book(n, gen):
    lo, hi = (8, 20) if SMOKE else (30, 110)
    lens = torch.randint(lo, hi, (n,), generator=gen)
    return [torch.randint(1, 80, (int(k),), generator=gen) for k in lens]


@torch.inference_mode()
def main():
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(8)
    model = Narrator().to(DEV, DT).eval()
    synth = torch.compile(model)
    sents = book(BATCH * N_BATCHES, gen)
    # neighbours in length go together, chunk by chunk, so that little is padded
    chunk = BATCH * 4
    batches = []
    for i in range(0, len(sents), chunk):
        part = sorted(sents[i : i + chunk], key=len)
        batches += [part[j : j + BATCH] for j in range(0, len(part), BATCH)]

    frames_total, energy, warm, t0 = 0, 0.0, N_BATCHES // 4, None
    for bi, group in enumerate(batches):
        if bi == warm:
            if DEV == "cuda":
                torch.cuda.synchronize()
            t0, base = time.perf_counter(), frames_total
        ids = pad_sequence(group, batch_first=True).to(DEV)
        mel, lens = synth(ids, 1.0)
        frames_total += int(lens.sum())
        energy += mel.float().pow(2).sum().item()
    secs = time.perf_counter() - t0
    audio = (frames_total - base) * HOP_S
    print(f"{len(sents)} sentences, {frames_total} frames, mean mel energy {energy / frames_total / 80:.5f}")
    print(f"real-time factor after warm-up: {audio / secs:.0f}x")


if __name__ == "__main__":
    main()
