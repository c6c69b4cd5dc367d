"""Station announcements: FastSpeech-2 style acoustic model (phonemes -> mel), batched synthesis."""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

PHONES, DIM, MELS, HEADS = 70, 192, 80, 2


def sinusoid(n, dim):
    pos = torch.arange(n)[:, None]
    div = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
    pe = torch.zeros(n, dim)
    pe[:, 0::2] = torch.sin(pos * div)
    pe[:, 1::2] = torch.cos(pos * div)
    return pe


class FFTBlock(nn.Module):
    """Self-attention followed by a convolutional feed-forward."""

    def __init__(self, hidden=512):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.proj = nn.Linear(DIM, DIM)
        self.c1 = nn.Conv1d(DIM, hidden, 9, padding=4)
        self.c2 = nn.Conv1d(hidden, DIM, 1)
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)

    def forward(self, x, pad):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=~pad[:, None, None])
        x = self.n1(x + self.proj(a.transpose(1, 2).reshape(b, n, DIM)))
        h = self.c2(F.relu(self.c1(x.transpose(1, 2)))).transpose(1, 2)
        return self.n2(x + h).masked_fill(pad[..., None], 0.0)


class Predictor(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv1d(DIM, DIM, 3, padding=1)
        self.c2 = nn.Conv1d(DIM, DIM, 3, padding=1)
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.out = nn.Linear(DIM, 1)

    def forward(self, x, pad):
        h = self.n1(F.relu(self.c1(x.transpose(1, 2))).transpose(1, 2))
        h = self.n2(F.relu(self.c2(h.transpose(1, 2))).transpose(1, 2))
        return self.out(h).squeeze(-1).masked_fill(pad, 0.0)


def regulate(x, dur):
    """Repeat every phoneme's vector dur times and pad the batch again."""
    out = [torch.repeat_interleave(xi, di, dim=0) for xi, di in zip(x, dur)]
    lens = torch.tensor([o.shape[0] for o in out])
    return nn.utils.rnn.pad_sequence(out, batch_first=True), lens


class Acoustic(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(PHONES, DIM, padding_idx=0)
        self.register_buffer("pe", sinusoid(1500, DIM), persistent=False)
        self.encoder = nn.ModuleList(FFTBlock() for _ in range(2))
        self.decoder = nn.ModuleList(FFTBlock() for _ in range(2))
        self.duration, self.pitch, self.energy = Predictor(), Predictor(), Predictor()
        self.register_buffer("bins", torch.linspace(-1.5, 1.5, 63))
        self.pitch_emb, self.energy_emb = nn.Embedding(64, DIM), nn.Embedding(64, DIM)
        self.mel = nn.Linear(DIM, MELS)
        self.post = nn.Sequential(
            nn.Conv1d(MELS, 128, 5, padding=2), nn.Tanh(), nn.Conv1d(128, MELS, 5, padding=2)
        )
        nn.init.constant_(self.duration.out.bias, math.log(5.0))

    def forward(self, ids, rate=1.0):
        pad = ids == 0
        x = self.emb(ids) * math.sqrt(DIM) * 0.1 + self.pe[: ids.shape[1]]
        for blk in self.encoder:
            x = blk(x, pad)
        log_d = self.duration(x, pad)
        dur = torch.round(torch.exp(log_d) * rate).clamp(1, 14).long() * ~pad
        p, e = self.pitch(x, pad), self.energy(x, pad)
        x = x + self.pitch_emb(torch.bucketize(p, self.bins)) + self.energy_emb(torch.bucketize(e, self.bins))

        y, lens = regulate(x, dur)
        ypad = torch.arange(y.shape[1])[None] >= lens[:, None]
        y = y + self.pe[: y.shape[1]]
        for blk in self.decoder:
            y = blk(y, ypad)
        m = self.mel(y)
        m = m + self.post(m.transpose(1, 2)).transpose(1, 2)
        return m.masked_fill(ypad[..., None], -11.5), lens


def requests(n, gen):
    """Texts of differing length: 'the train to X leaves from platform Y'."""
    for _ in range(n):
        size = int(torch.randint(12, 48, (1,), generator=gen))
        yield torch.randint(1, PHONES, (size,), generator=gen)


def batches(items, size):
    items = sorted(items, key=len)  # less padding
    for i in range(0, len(items), size):
        yield nn.utils.rnn.pad_sequence(items[i : i + size], batch_first=True)


def main():
    torch.manual_seed(8)
    gen = torch.Generator().manual_seed(8)
    model = Acoustic().eval()
    synth = torch.compile(model)

    work = list(batches(list(requests(160, gen)), 2))
    with torch.inference_mode():
        for ids in work[::20]:  # warm up over the range of lengths
            synth(ids)
        frames, total, t0 = 0, 0.0, time.time()
        lengths = []
        for ids in work:
            mel, lens = synth(ids)
            frames += int(lens.sum())
            lengths += lens.tolist()
            total += mel.clamp(min=-11.5).mean().item()
        wall = time.time() - t0
    audio = frames * 256 / 22050
    print(f"{len(lengths)} announcements, {audio:.1f} s of audio, longest {max(lengths)} frames")
    print(f"mean mel {total / len(work):.5f}")
    print(f"real-time factor {wall / audio:.4f}, {frames / wall:.0f} frames/s")


if __name__ == "__main__":
    main()
