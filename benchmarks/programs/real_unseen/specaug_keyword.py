"""Trains a keyword-spotting CRNN whose log-mel features and SpecAugment masks come from torchaudio transforms on the GPU, in bf16 autocast."""

import math

import torch
import torch.nn as nn
import torchaudio.transforms as T


class Frontend(nn.Module):
    def __init__(self, sr=16000, n_mels=64):
        super().__init__()
        self.mel = T.MelSpectrogram(sample_rate=sr, n_fft=512, hop_length=160, n_mels=n_mels, f_min=20.0)
        self.to_db = T.AmplitudeToDB(stype="power", top_db=80.0)
        self.fmask = T.FrequencyMasking(freq_mask_param=12, iid_masks=True)
        self.tmask = T.TimeMasking(time_mask_param=20, iid_masks=True)

    def forward(self, wav):
        x = self.to_db(self.mel(wav)).unsqueeze(1)
        x = (x - x.mean((2, 3), keepdim=True)) / (x.std((2, 3), keepdim=True) + 1e-5)
        if self.training:
            x = self.tmask(self.fmask(self.fmask(x)))
        return x


class CRNN(nn.Module):
    def __init__(self, classes=35, n_mels=64):
        super().__init__()

        def block(i, o):
            return nn.Sequential(
                nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.SiLU(), nn.MaxPool2d((2, 1))
            )

        self.front = Frontend(n_mels=n_mels)
        self.conv = nn.Sequential(block(1, 32), block(32, 64), block(64, 96))
        self.gru = nn.GRU(96 * n_mels // 8, 192, batch_first=True, bidirectional=True)
        self.att = nn.Linear(384, 1)
        self.out = nn.Sequential(nn.Dropout(0.1), nn.Linear(384, classes))

    def forward(self, wav):
        with torch.autocast("cuda", enabled=False):
            x = self.front(wav.float())
        x = self.conv(x).flatten(1, 2).transpose(1, 2)
        x, _ = self.gru(x)
        w = self.att(x).softmax(1)
        return self.out((w * x).sum(1))


def make_batch(n, labels, gen):
    t = torch.arange(16000, device="cuda") / 16000
    f = 150 + 60 * labels[:, None].float()
    sweep = f * t + 40 * labels[:, None] * t * t
    noise = torch.randn(n, 16000, device="cuda", generator=gen)
    return 0.5 * torch.sin(2 * math.pi * sweep) + 0.1 * noise


def main():
    torch.manual_seed(3)
    gen = torch.Generator(device="cuda").manual_seed(3)
    model = CRNN().cuda()
    model = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2e-3, total_steps=30)
    lossf = nn.CrossEntropyLoss(label_smoothing=0.05)
    hist = []
    for _ in range(30):
        y = torch.randint(0, 35, (128,), device="cuda", generator=gen)
        wav = make_batch(128, y, gen)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = lossf(model(wav), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        sched.step()
        hist.append(loss.item())
    model.eval()
    with torch.no_grad():
        y = torch.randint(0, 35, (128,), device="cuda", generator=gen)
        acc = (model(make_batch(128, y, gen)).argmax(1) == y).float().mean()
    print("loss first %.4f last %.4f" % (hist[0], hist[-1]))
    print("eval accuracy %.3f" % acc.item())


if __name__ == "__main__":
    main()
