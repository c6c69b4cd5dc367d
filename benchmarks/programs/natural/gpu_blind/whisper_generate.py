"""Whisper-style encoder/decoder, greedy transcription with a key/value cache."""

import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

N_MELS = 80
FRAMES = max(64, int(3000 * SCALE) // 2 * 2)
HEADS = max(2, int(8 * SCALE))
D = HEADS * 64
LAYERS = max(1, int(6 * SCALE))
VOCAB = max(600, int(51865 * SCALE))
BATCH = max(2, int(8 * SCALE))
MAX_NEW = 24 if SCALE < 0.5 else 48
SOT, EOT, NO_TS = VOCAB - 4, VOCAB - 3, VOCAB - 2
DTYPE = torch.float16 if DEVICE == "cuda" else torch.float32


def sinusoids(length, channels):
    inc = math.log(10000) / (channels // 2 - 1)
    inv = torch.exp(-inc * torch.arange(channels // 2))
    t = torch.arange(length)[:, None] * inv[None, :]
    return torch.cat([torch.sin(t), torch.cos(t)], dim=1)


class MultiHeadAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(d, d)
        self.key = nn.Linear(d, d, bias=False)
        self.value = nn.Linear(d, d)
        self.out = nn.Linear(d, d)

    def split(self, x):
        b, t, d = x.shape
        return x.view(b, t, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, x, kv=None, causal=False):
        q = self.split(self.query(x))
        if kv is None:
            kv = (self.split(self.key(x)), self.split(self.value(x)))
        o = F.scaled_dot_product_attention(q, kv[0], kv[1], is_causal=causal)
        return self.out(o.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, d, heads, cross=False):
        super().__init__()
        self.attn = MultiHeadAttention(d, heads)
        self.attn_ln = nn.LayerNorm(d)
        self.cross_attn = MultiHeadAttention(d, heads) if cross else None
        self.cross_ln = nn.LayerNorm(d) if cross else None
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.mlp_ln = nn.LayerNorm(d)

    def forward(self, x, cache=None, cross_kv=None):
        h = self.attn_ln(x)
        if cache is not None:
            k, v = self.attn.split(self.attn.key(h)), self.attn.split(self.attn.value(h))
            if "k" in cache:
                k = torch.cat([cache["k"], k], dim=2)
                v = torch.cat([cache["v"], v], dim=2)
            cache["k"], cache["v"] = k, v
            x = x + self.attn(h, (k, v), causal=h.shape[1] > 1)
        else:
            x = x + self.attn(h)
        if self.cross_attn is not None:
            x = x + self.cross_attn(self.cross_ln(x), cross_kv)
        return x + self.mlp(self.mlp_ln(x))


class AudioEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(N_MELS, D, 3, padding=1)
        self.conv2 = nn.Conv1d(D, D, 3, stride=2, padding=1)
        self.register_buffer("pos", sinusoids(FRAMES // 2, D))
        self.blocks = nn.ModuleList([Block(D, HEADS) for _ in range(LAYERS)])
        self.ln_post = nn.LayerNorm(D)

    def forward(self, mel):
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).permute(0, 2, 1)
        x = (x + self.pos).to(x.dtype)
        for block in self.blocks:
            x = block(x)
        return self.ln_post(x)


class TextDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCAB, D)
        self.pos = nn.Parameter(torch.randn(448, D) * 0.01)
        self.blocks = nn.ModuleList([Block(D, HEADS, cross=True) for _ in range(LAYERS)])
        self.ln = nn.LayerNorm(D)

    def cross_kv(self, audio):
        return [
            (b.cross_attn.split(b.cross_attn.key(audio)), b.cross_attn.split(b.cross_attn.value(audio)))
            for b in self.blocks
        ]

    def forward(self, tokens, caches, cross):
        offset = caches[0]["k"].shape[2] if "k" in caches[0] else 0
        x = self.token(tokens) + self.pos[offset : offset + tokens.shape[1]]
        for block, cache, kv in zip(self.blocks, caches, cross):
            x = block(x, cache, kv)
        x = self.ln(x)
        logits = (x @ self.token.weight.t()).float()
        return {"logits": logits, "caches": caches}


@torch.inference_mode()
def transcribe(encoder, decoder, cross_fn, mel, suppress):
    audio = encoder(mel)
    cross = cross_fn(audio)
    caches = [{} for _ in range(LAYERS)]
    tokens = torch.tensor([[SOT, NO_TS]], device=mel.device).repeat(mel.shape[0], 1)
    sum_logprobs = torch.zeros(mel.shape[0], device=mel.device)
    finished = torch.zeros(mel.shape[0], dtype=torch.bool, device=mel.device)
    step_input = tokens
    for _ in range(MAX_NEW):
        out = decoder(step_input, caches, cross)
        caches = out["caches"]
        logits = out["logits"][:, -1]
        logits[:, suppress] = -float("inf")
        logprobs = F.log_softmax(logits, dim=-1)
        nxt = logprobs.argmax(-1)
        nxt[finished] = EOT
        sum_logprobs += logprobs[torch.arange(len(nxt)), nxt] * (~finished)
        finished |= nxt == EOT
        tokens = torch.cat([tokens, nxt[:, None]], dim=1)
        step_input = nxt[:, None]
        if finished.all():
            break
    return tokens, sum_logprobs


def main():
    torch.manual_seed(0)
    encoder = AudioEncoder().to(DEVICE, DTYPE).eval()
    decoder = TextDecoder().to(DEVICE, DTYPE).eval()
    cross_fn = decoder.cross_kv
    encoder = torch.compile(encoder)
    decoder = torch.compile(decoder)
    suppress = torch.randint(0, VOCAB - 8, (90,)).unique().tolist() + [SOT, NO_TS]

    for utt in range(4):
        mel = torch.randn(BATCH, N_MELS, FRAMES).to(DEVICE, DTYPE)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        start = time.time()
        tokens, lp = transcribe(encoder, decoder, cross_fn, mel, suppress)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        dt = time.time() - start
        n = tokens.shape[1] - 2
        print(
            f"utterance batch {utt}: {n} tokens, {dt / n * 1e3:.2f} ms/token, avg logprob {lp.mean().item() / n:.3f}"
        )
    print("first tokens:", tokens[0, :8].tolist())


if __name__ == "__main__":
    main()
