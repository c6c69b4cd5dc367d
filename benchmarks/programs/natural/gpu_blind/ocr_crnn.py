"""Text-line recogniser (CRNN): convolutional features, bidirectional LSTM and
CTC, trained on synthetic line images whose width varies from batch to batch."""

import os
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1"))

BATCH = max(4, int(64 * SCALE))
HEIGHT = 48
CHARSET = 96  # index 0 is the CTC blank
HIDDEN = 320 if SCALE >= 0.5 else 32
CHANNELS = (64, 128, 256, 320) if SCALE >= 0.5 else (8, 16, 16, 32)
MIN_CHARS, MAX_CHARS = (24, 72) if SCALE >= 0.5 else (6, 14)
CHAR_WIDTH = 14


class ConvBlock(nn.Module):
    def __init__(self, cin, cout, pool):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.pool = nn.MaxPool2d(pool)

    def forward(self, x):
        x = F.leaky_relu(self.bn1(self.conv1(x)), 0.1)
        x = F.leaky_relu(self.bn2(self.conv2(x)), 0.1)
        return self.pool(x)


class CRNN(nn.Module):
    def __init__(self):
        super().__init__()
        c = CHANNELS
        self.features = nn.Sequential(
            ConvBlock(1, c[0], (2, 2)),
            ConvBlock(c[0], c[1], (2, 2)),
            ConvBlock(c[1], c[2], (2, 1)),
            ConvBlock(c[2], c[3], (2, 1)),
        )
        self.rnn = nn.LSTM(c[3] * (HEIGHT // 16), HIDDEN, num_layers=3, bidirectional=True, dropout=0.2)
        self.head = nn.Linear(2 * HIDDEN, CHARSET)

    def forward(self, images):
        x = self.features(images)  # B, C, 3, W/4
        x = x.flatten(1, 2).permute(2, 0, 1)  # W/4, B, C*3
        x, _ = self.rnn(x)
        return F.log_softmax(self.head(x).float(), dim=-1)


class SyntheticLines:
    """Renders random glyph strips; one width per batch, as a bucketing
    sampler that sorts lines by length would produce."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        gen = torch.Generator().manual_seed(seed)
        glyphs = torch.rand(CHARSET, HEIGHT, CHAR_WIDTH, generator=gen)
        self.glyphs = (glyphs > 0.6).float().to(DEVICE)

    def batch(self):
        longest = self.rng.randint(MIN_CHARS, MAX_CHARS)
        lengths = torch.tensor([self.rng.randint(max(1, longest - 6), longest) for _ in range(BATCH)])
        text = torch.randint(1, CHARSET, (BATCH, longest), device=DEVICE)
        strips = self.glyphs[text]  # B, L, H, cw
        images = strips.permute(0, 2, 1, 3).reshape(BATCH, 1, HEIGHT, -1)
        column = torch.arange(images.shape[-1], device=DEVICE) // CHAR_WIDTH
        visible = column[None] < lengths.to(DEVICE)[:, None]
        images = images * visible[:, None, None, :]
        images = images + 0.1 * torch.randn_like(images)
        return images, text, lengths


def greedy_decode(log_probs):
    best = log_probs.argmax(-1).t().tolist()
    lines = []
    for row in best:
        line, last = [], 0
        for token in row:
            if token != last and token != 0:
                line.append(token)
            last = token
        lines.append(line)
    return lines


def main():
    torch.manual_seed(11)
    model = CRNN().to(DEVICE)
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-4, weight_decay=1e-3)
    ctc = nn.CTCLoss(blank=0, zero_infinity=True)
    data = SyntheticLines(5)
    use_amp = DEVICE.startswith("cuda")

    def train_step():
        images, text, lengths = data.batch()
        with torch.autocast(DEVICE.split(":")[0], dtype=torch.bfloat16, enabled=use_amp):
            log_probs = compiled(images)
        frames = torch.full((BATCH,), log_probs.shape[0], dtype=torch.long)
        loss = ctc(log_probs, text, frames, lengths)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        return loss.detach(), log_probs.shape[0]

    warmup, iters = (8, 40) if SCALE >= 0.5 else (2, 15)
    for _ in range(warmup):
        loss, _ = train_step()
    print(f"after warm-up: ctc {float(loss):.4f}")

    begin = time.perf_counter()
    losses, frames = [], 0
    for _ in range(iters):
        loss, n = train_step()
        losses.append(loss)
        frames += n * BATCH
    mean_loss = float(torch.stack(losses[-10:]).mean())
    took = time.perf_counter() - begin
    print(f"{1e3 * took / iters:.1f} ms/step, {frames / took / 1e3:.0f}k frames/s")

    model.eval()
    with torch.no_grad():
        images, _, _ = data.batch()
        decoded = greedy_decode(model(images))
    print(f"ctc {mean_loss:.4f}, mean decoded length {sum(map(len, decoded)) / len(decoded):.1f}")


if __name__ == "__main__":
    main()
