"""Audio-visual speech recognition (lip crops + mel frames), CTC on characters, fp16 with a grad scaler.

Utterances have different lengths; each batch is padded to its own longest utterance.
"""

import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

device = "cuda"
N_UTTS, BATCH, STEPS = 160, 12, 120
CROP, N_MELS, VOCAB, DIM, LAYERS = 88, 80, 40, 512, 6
MIN_LEN, MAX_LEN = 40, 120


class ResBlock(nn.Module):
    def __init__(self, c_in, c_out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.act = nn.PReLU(c_out)
        self.skip = None
        if stride != 1 or c_in != c_out:
            self.skip = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x):
        y = self.bn2(self.conv2(self.act(self.bn1(self.conv1(x)))))
        return self.act(y + (x if self.skip is None else self.skip(x)))


class LipFrontend(nn.Module):
    """3-D stem over time, then a 2-D residual trunk on each frame."""

    def __init__(self, dim):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv3d(1, 64, (5, 7, 7), (1, 2, 2), (2, 3, 3), bias=False),
            nn.BatchNorm3d(64),
            nn.PReLU(64),
            nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1)),
        )
        self.trunk = nn.Sequential(
            ResBlock(64, 64), ResBlock(64, 128, 2), ResBlock(128, 256, 2), ResBlock(256, 512, 2)
        )
        self.proj = nn.Linear(512, dim)

    def forward(self, video):  # B, T, H, W
        x = self.stem(video.unsqueeze(1))
        b, c, t, h, w = x.shape
        x = x.transpose(1, 2).reshape(b * t, c, h, w)
        x = self.trunk(x).mean(dim=(2, 3))
        return self.proj(x).view(b, t, -1)


class AudioFrontend(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(N_MELS, 256, 5, 2, 2), nn.GELU(), nn.Conv1d(256, dim, 5, 2, 2), nn.GELU()
        )

    def forward(self, mel):  # B, 80, 4T
        return self.net(mel).transpose(1, 2)


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads=8, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.depthwise = nn.Conv1d(dim, dim, 15, padding=7, groups=dim)
        self.gate = nn.Linear(dim, 2 * dim)
        self.ff = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Dropout(dropout), nn.Linear(4 * dim, dim)
        )
        self.drop = nn.Dropout(dropout)

    def forward(self, x, valid):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=valid[:, None, None, :])
        x = x + self.drop(self.out(a.transpose(1, 2).reshape(b, t, d)))
        y = F.glu(self.gate(self.norm2(x)), dim=-1) * valid.unsqueeze(-1)
        x = x + self.drop(self.depthwise(y.transpose(1, 2)).transpose(1, 2))
        return x + self.drop(self.ff(self.norm3(x)))


class AVRecogniser(nn.Module):
    def __init__(self, dim=DIM, layers=LAYERS, p_drop_modality=0.2):
        super().__init__()
        self.lips, self.audio = LipFrontend(dim), AudioFrontend(dim)
        self.fuse = nn.Linear(2 * dim, dim)
        self.layers = nn.ModuleList(EncoderLayer(dim) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, VOCAB)
        self.p = p_drop_modality
        pos = torch.arange(1024).unsqueeze(1)
        freq = torch.exp(torch.arange(0, dim, 2) * (-math.log(1e4) / dim))
        self.register_buffer("pe", torch.cat([torch.sin(pos * freq), torch.cos(pos * freq)], dim=1))

    def forward(self, video, mel, lengths):
        v, a = self.lips(video), self.audio(mel)
        if self.training:  # drop one of the modalities for some utterances
            u = torch.rand(v.size(0), 1, 1, device=v.device)
            v = v * (u > self.p)
            a = a * (u < 1 - self.p)
        t = v.size(1)
        valid = torch.arange(t, device=v.device)[None, :] < lengths[:, None]
        x = self.fuse(torch.cat([v, a], dim=-1)) + self.pe[:t]
        for layer in self.layers:
            x = layer(x, valid)
        return self.head(self.norm(x)).float().log_softmax(-1)


def make_corpus():
    corpus = []
    for _ in range(N_UTTS):
        t = random.randint(MIN_LEN, MAX_LEN)
        chars = torch.randint(1, VOCAB, (t // 8,))
        per_frame = chars.repeat_interleave(8)
        per_frame = torch.cat([per_frame, per_frame.new_zeros(t - len(per_frame))]).float() / VOCAB
        video = torch.randn(t, CROP, CROP) * 0.3 + per_frame[:, None, None]
        mel = torch.randn(N_MELS, 4 * t) * 0.3 + per_frame.repeat_interleave(4)
        corpus.append((video.to(device), mel.to(device), chars))
    return corpus


def collate(items):
    lengths = torch.tensor([v.size(0) for v, _, _ in items])
    t = int(lengths.max())
    video = torch.stack([F.pad(v, (0, 0, 0, 0, 0, t - v.size(0))) for v, _, _ in items])
    mel = torch.stack([F.pad(m, (0, 4 * t - m.size(1))) for _, m, _ in items])
    targets = torch.cat([c for _, _, c in items])
    return video, mel, lengths.to(device), targets.to(device), torch.tensor([len(c) for _, _, c in items])


def main():
    random.seed(3)
    torch.manual_seed(3)
    corpus = make_corpus()
    model = AVRecogniser().to(device)
    compiled = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.98))
    scaler = torch.amp.GradScaler(device)
    ctc = nn.CTCLoss(blank=0, zero_infinity=True)
    losses, frames = [], 0
    for step in range(STEPS):
        video, mel, lengths, targets, target_lengths = collate(random.sample(corpus, BATCH))
        with torch.autocast(device, dtype=torch.float16):
            logp = compiled(video, mel, lengths)
        loss = ctc(logp.transpose(0, 1), targets, lengths, target_lengths.to(device))
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(opt)
        scaler.update()
        losses.append(loss.detach())
        frames += video.size(0) * video.size(1)
    losses = torch.stack(losses).cpu()
    print("frames seen", frames)
    print(
        "CTC loss, first ten",
        round(losses[:10].mean().item(), 3),
        "last ten",
        round(losses[-10:].mean().item(), 3),
    )


if __name__ == "__main__":
    main()
