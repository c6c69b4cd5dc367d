"""Mail routing service: an FNet encoder gives each customer mail a department and an urgency.

Requests come in small groups whose sizes and lengths vary; each group is padded to its longest mail.
"""

import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, DIM, LAYERS, MAX_LEN = 12000, 256, 4, 384
DEPARTMENTS = ["billing", "returns", "delivery", "warranty", "press", "other"]


class FourierMix(nn.Module):
    def forward(self, x):
        return torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real


class FNetLayer(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.mix = FourierMix()
        self.norm1 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, mask):
        x = self.norm1(x + self.mix(x * mask))
        y = self.fc2(F.gelu(self.fc1(x), approximate="tanh"))
        return self.norm2(x + self.drop(y))


class MailRouter(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(VOCAB, DIM, padding_idx=0)
        self.pos = nn.Embedding(MAX_LEN, DIM)
        self.norm = nn.LayerNorm(DIM)
        self.layers = nn.ModuleList(FNetLayer(DIM, 4 * DIM) for _ in range(LAYERS))
        self.pool = nn.Linear(DIM, DIM)
        self.department = nn.Linear(DIM, len(DEPARTMENTS))
        self.urgency = nn.Linear(DIM, 1)

    def forward(self, ids):
        mask = (ids != 0).unsqueeze(-1).to(self.pos.weight.dtype)
        positions = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.word(ids) + self.pos(positions))
        for layer in self.layers:
            x = layer(x, mask)
        pooled = (x * mask).sum(1) / mask.sum(1).clamp(min=1)
        pooled = torch.tanh(self.pool(pooled))
        return self.department(pooled).softmax(-1), self.urgency(pooled).squeeze(-1).sigmoid()


def pad(batch):
    longest = max(len(m) for m in batch)
    ids = torch.zeros(len(batch), longest, dtype=torch.long)
    for i, mail in enumerate(batch):
        ids[i, : len(mail)] = torch.tensor(mail)
    return ids


class Service:
    def __init__(self, model):
        self.model = torch.compile(model.eval())
        self.latency = []

    @torch.inference_mode()
    def handle(self, mails):
        t0 = time.perf_counter()
        prob, urgency = self.model(pad(mails))
        best, which = prob.max(-1)
        answers = [
            {"department": DEPARTMENTS[d], "confidence": c, "urgent": u > 0.5}
            for d, c, u in zip(which.tolist(), best.tolist(), urgency.tolist())
        ]
        self.latency.append(time.perf_counter() - t0)
        return answers


def mail_stream(n):
    for _ in range(n):
        group = []
        for _ in range(random.randint(1, 8)):
            length = min(MAX_LEN, max(12, int(random.lognormvariate(4.6, 0.6))))
            group.append([random.randrange(1, VOCAB) for _ in range(length)])
        yield group


def main():
    random.seed(11)
    torch.manual_seed(11)
    service = Service(MailRouter())
    tally = dict.fromkeys(DEPARTMENTS, 0)
    urgent = total = 0
    for group in mail_stream(220):
        for answer in service.handle(group):
            tally[answer["department"]] += 1
            urgent += answer["urgent"]
            total += 1
    lat = sorted(service.latency)
    print("mails", total, "urgent", urgent)
    print("departments", tally)
    print(f"latency median {1e3 * lat[len(lat) // 2]:.1f} ms, p95 {1e3 * lat[int(len(lat) * 0.95)]:.1f} ms")


if __name__ == "__main__":
    main()
