"""Embedding service for second-hand listings: photo + title -> one 256-d vector, stored as int8.

Requests arrive in bursts; the worker takes whatever waits (at most MAX_BATCH) and answers it at once."""

import random
import time
import zlib

import torch
import torch.nn as nn
import torch.nn.functional as F

device = "cuda"
N_REQUESTS, MAX_BATCH = 16000, 64
PHOTO, MAX_WORDS, VOCAB = 224, 64, 50000
DIM, HEADS, LAYERS, OUT = 512, 8, 10, 256
WORDS = (
    "oak table chair lamp vintage bike frame road size large small blue green leather sofa jacket wool "
    "children pram mint condition barely used original box phone case camera lens record player shelf"
).split()


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.fc1, self.fc2 = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x, mask):
        b, n, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, n, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.proj(a.transpose(1, 2).reshape(b, n, DIM))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class ListingEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, DIM, 16, stride=16)
        self.words = nn.Embedding(VOCAB, DIM, padding_idx=0)
        self.pos_image = nn.Parameter(torch.randn(1, (PHOTO // 16) ** 2, DIM) * 0.02)
        self.pos_text = nn.Parameter(torch.randn(1, MAX_WORDS, DIM) * 0.02)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.out = nn.LayerNorm(DIM), nn.Linear(DIM, OUT, bias=False)
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))

    def forward(self, photos, ids):
        longest = int((ids > 0).sum(1).max())  # no need to carry the padding
        ids = ids[:, :longest]
        pixels = (photos.float() / 255 - self.mean) / self.std
        image = self.patch(pixels.to(self.out.weight.dtype)).flatten(2).transpose(1, 2) + self.pos_image
        text = self.words(ids) + self.pos_text[:, :longest]
        x = torch.cat([image, text], dim=1)
        keep = F.pad(ids > 0, (image.size(1), 0), value=True)
        for layer in self.layers:
            x = layer(x, keep[:, None, None, :])
        x = self.norm(x) * keep.unsqueeze(-1)
        pooled = x.sum(1) / keep.sum(1, keepdim=True)
        vec = F.normalize(self.out(pooled).float(), dim=-1)
        scale = vec.abs().amax(dim=-1, keepdim=True) / 127
        return (vec / scale).round().to(torch.int8), scale


def tokenise(title):
    ids = []
    for word in title.lower().split()[:MAX_WORDS]:
        ids.append(1 + zlib.crc32(word.encode()) % (VOCAB - 1))
    return ids + [0] * (MAX_WORDS - len(ids))


class Worker:
    def __init__(self):
        self.model = ListingEncoder().to(device).half().eval()
        self.model.compile()
        self.latencies = []

    @torch.inference_mode()
    def answer(self, requests):
        start = time.perf_counter()
        photos = torch.stack([photo for photo, _ in requests]).to(device, non_blocking=True)
        ids = torch.tensor([tokenise(title) for _, title in requests]).to(device, non_blocking=True)
        codes, scale = self.model(photos, ids)
        result = codes.cpu().numpy(), scale.cpu().numpy()
        self.latencies.append(time.perf_counter() - start)
        return result


def burst_sizes(rng):
    left = N_REQUESTS
    while left > 0:
        n = min(left, MAX_BATCH, 1 + int(rng.expovariate(1 / 40)))
        left -= n
        yield n


def main():
    rng = random.Random(5)
    torch.manual_seed(5)
    photo_pool = list(torch.randint(0, 256, (256, 3, PHOTO, PHOTO), dtype=torch.uint8))
    titles = [" ".join(rng.choices(WORDS, k=rng.randint(3, 30))) for _ in range(2000)]
    worker = Worker()
    answered, checksum = 0, 0
    for n in burst_sizes(rng):
        codes, scale = worker.answer([(rng.choice(photo_pool), rng.choice(titles)) for _ in range(n)])
        answered += len(codes)
        checksum += int(codes[:, 0].astype("int64").sum())
    lat = sorted(worker.latencies)
    print(f"{answered} listings in {len(lat)} batches, checksum {checksum}")
    print(f"median {1e3 * lat[len(lat) // 2]:.2f} ms, p95 {1e3 * lat[int(len(lat) * 0.95)]:.2f} ms per batch")


if __name__ == "__main__":
    main()
