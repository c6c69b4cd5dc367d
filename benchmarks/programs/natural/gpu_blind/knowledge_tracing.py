"""Context aware attentive knowledge tracing of students (monotonic attention with Rasch embeddings)."""

import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(3)
torch.set_float32_matmul_precision("high")

N_SKILL = 123
N_QUESTION = 500 if SMOKE else 17000
N_STUDENT = 64 if SMOKE else 4000
SEQ = 40 if SMOKE else 200
BATCH = 8 if SMOKE else 64
DIM, HEADS, FF = (32, 4, 64) if SMOKE else (256, 8, 1024)
STEPS = 8 if SMOKE else 90


class MonotonicAttention(nn.Module):
    def __init__(self, kq_same=True):
        super().__init__()
        self.q = nn.Linear(DIM, DIM)
        self.k = self.q if kq_same else nn.Linear(DIM, DIM)
        self.v = nn.Linear(DIM, DIM)
        self.out = nn.Linear(DIM, DIM)
        self.gamma = nn.Parameter(torch.empty(HEADS, 1, 1))
        nn.init.xavier_uniform_(self.gamma)
        self.drop = nn.Dropout(0.05)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], HEADS, DIM // HEADS).transpose(1, 2)

    def forward(self, q, k, v, mask, zero_pad):
        q, k, v = self.split(self.q(q)), self.split(self.k(k)), self.split(self.v(v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(DIM // HEADS)
        seq = scores.shape[-1]
        with torch.no_grad():
            weights = F.softmax(scores.masked_fill(~mask, -1e32), dim=-1) * mask
            seen = torch.cumsum(weights, dim=-1)
            total = weights.sum(-1, keepdim=True)
            row = torch.arange(seq).expand(seq, -1)
            position = (row - row.T).abs()[None, None].to(scores)
            distance = torch.clamp((total - seen) * position, min=0.0).sqrt()
        effect = torch.clamp((-F.softplus(self.gamma) * distance).exp(), 1e-5, 1e5)
        attn = F.softmax((scores * effect).masked_fill(~mask, -1e32), dim=-1)
        if zero_pad:
            attn = torch.cat([torch.zeros_like(attn[:, :, :1]), attn[:, :, 1:]], dim=2)
        y = self.drop(attn) @ v
        return self.out(y.transpose(1, 2).reshape(y.shape[0], seq, DIM))


class Block(nn.Module):
    def __init__(self, strict):
        super().__init__()
        self.strict = strict
        self.attn = MonotonicAttention()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.ff = nn.Sequential(nn.Linear(DIM, FF), nn.ReLU(), nn.Dropout(0.05), nn.Linear(FF, DIM))
        self.drop = nn.Dropout(0.05)

    def forward(self, query, value, use_ff=True):
        seq = query.shape[1]
        mask = torch.ones(seq, seq, dtype=torch.bool, device=query.device).tril(-1 if self.strict else 0)
        x = self.norm1(query + self.drop(self.attn(query, query, value, mask, self.strict)))
        if use_ff:
            x = self.norm2(x + self.drop(self.ff(x)))
        return x


class AKT(nn.Module):
    def __init__(self):
        super().__init__()
        self.skill = nn.Embedding(N_SKILL, DIM)
        self.skill_diff = nn.Embedding(N_SKILL, DIM)
        self.answer = nn.Embedding(2, DIM)
        self.answer_diff = nn.Embedding(2 * N_SKILL, DIM)
        self.difficulty = nn.Embedding(N_QUESTION, 1)
        self.history = nn.ModuleList([Block(False), Block(False)])
        self.self_q = nn.ModuleList([Block(False), Block(False)])
        self.retrieve = nn.ModuleList([Block(True), Block(True)])
        self.head = nn.Sequential(nn.Linear(2 * DIM, 256), nn.ReLU(), nn.Dropout(0.05), nn.Linear(256, 1))

    def forward(self, question, skill, correct, valid):
        diff = self.difficulty(question)
        q = self.skill(skill)
        qa = self.answer(correct) + q + diff * self.answer_diff(skill + N_SKILL * correct)
        q = q + diff * self.skill_diff(skill)
        x, y = q, qa
        for block in self.history:
            y = block(y, y)
        for block, retrieve in zip(self.self_q, self.retrieve):
            x = block(x, x, use_ff=False)
            x = retrieve(x, y)
        logit = self.head(torch.cat([x, q], -1)).squeeze(-1)
        loss = F.binary_cross_entropy_with_logits(logit, correct.float(), reduction="none")
        loss = (loss * valid).sum() / valid.sum()
        return loss + 1e-5 * diff.square().sum(), logit.detach()


def simulate_students():
    skill_of = torch.randint(N_SKILL, (N_QUESTION,))
    hard = torch.randn(N_QUESTION)
    question = torch.randint(N_QUESTION, (N_STUDENT, SEQ))
    skill = skill_of[question]
    ability = 0.5 * torch.randn(N_STUDENT, 1) + torch.linspace(-0.5, 1.0, SEQ)
    correct = (torch.rand(N_STUDENT, SEQ) < torch.sigmoid(ability - hard[question])).long()
    length = torch.randint(SEQ // 4, SEQ + 1, (N_STUDENT, 1))
    valid = (torch.arange(SEQ) < length).float()
    return [v.to(device) for v in (question, skill, correct, valid)]


def main():
    data = simulate_students()
    model = AKT().to(device).train()
    net = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    mark, times = min(10, STEPS // 2), []
    for step in range(STEPS):
        if device == "cuda":
            torch.cuda.synchronize()
        t0 = time.perf_counter()
        pick = torch.randint(N_STUDENT, (BATCH,), device=device)
        question, skill, correct, valid = [v[pick] for v in data]
        loss, logit = net(question, skill, correct, valid)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - t0) * 1e3)
        if step % 30 == 0 or SMOKE:
            acc = (((logit > 0) == (correct > 0)) * valid).sum() / valid.sum()
            print(f"step {step:3d}  loss {loss.item():.4f}  acc {acc.item():.3f}")
    steady = sorted(times[mark:])
    print(f"median {steady[len(steady) // 2]:.3f} ms/step")


if __name__ == "__main__":
    main()
