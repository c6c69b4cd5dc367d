"""Data-parallel evaluation of a nanopore basecaller; each rank reads its own flow cell.

torchrun --standalone --nproc-per-node 2 nanopore_eval_dp.py
"""

import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

HIDDEN = 384 if SCALE >= 0.5 else 48
READ = max(300, int(3600 * SCALE))
STRIDE = 6
STEPS = 40


class Basecaller(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.Sequential(
            nn.Conv1d(1, 16, 5, padding=2),
            nn.SiLU(),
            nn.Conv1d(16, 64, 5, padding=2),
            nn.SiLU(),
            nn.Conv1d(64, HIDDEN, 19, stride=STRIDE, padding=9),
            nn.SiLU(),
        )
        self.rnns = nn.ModuleList(nn.LSTM(HIDDEN, HIDDEN, batch_first=True) for _ in range(4))
        self.norms = nn.ModuleList(nn.LayerNorm(HIDDEN) for _ in range(4))
        self.head = nn.Linear(HIDDEN, 5)

    def forward(self, signal, lengths):
        x = self.convs(signal.unsqueeze(1)).transpose(1, 2)
        for i, (rnn, norm) in enumerate(zip(self.rnns, self.norms)):
            y = x.flip(1) if i % 2 == 0 else x
            y = rnn(y)[0]
            y = y.flip(1) if i % 2 == 0 else y
            x = norm(x + y)
        logp = F.log_softmax(4.0 * torch.tanh(self.head(x).float()), -1)
        frames = torch.arange(x.shape[1], device=x.device)
        valid = frames[None, :] < (lengths // STRIDE)[:, None]
        return logp, valid


def read_batches(rank, gen, dev, dtype):
    base = (40, 72)[rank % 2]
    for _ in range(STEPS):
        n = int(torch.randint(base - 8, base + 8, (), generator=gen) * max(SCALE, 0.06)) + 1
        longest = int(torch.randint(READ // 2, READ, (), generator=gen))
        lengths = torch.randint(longest // 2, longest + 1, (n,), generator=gen)
        signal = torch.randn(n, longest, generator=gen).cumsum(1)
        signal = (signal - signal.mean(1, keepdim=True)) / signal.std(1, keepdim=True)
        signal = signal * (torch.arange(longest)[None] < lengths[:, None])
        yield signal.to(dev, dtype), lengths.to(dev)


@torch.compile
def score_frames(logp, valid):
    best, path = logp.max(-1)
    quality = -10.0 * torch.log10((1.0 - best.exp()).clamp_min(1e-5))
    changed = F.pad(path[:, 1:] != path[:, :-1], (1, 0), value=True)
    emitted = changed & (path != 0) & valid
    return path, emitted, (quality * emitted).sum(), emitted.sum()


def main():
    cuda = device == "cuda"
    local_rank = int(os.environ["LOCAL_RANK"])
    dev = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(dev)
    dist.init_process_group("nccl" if cuda else "gloo")
    rank = dist.get_rank()
    dtype = torch.float16 if cuda else torch.float32

    torch.manual_seed(17)
    model = Basecaller().to(dev, dtype).eval()
    model = torch.compile(model)
    gen = torch.Generator().manual_seed(50 + rank)
    batches = list(read_batches(rank, gen, dev, dtype))

    totals = torch.zeros(3, device=dev, dtype=torch.float64)
    times, called = [], []
    with torch.inference_mode():
        for step, (signal, lengths) in enumerate(batches):
            if cuda:
                torch.cuda.synchronize()
            t0 = time.perf_counter()
            logp, valid = model(signal, lengths)
            path, emitted, quality, bases = score_frames(logp, valid)
            stats = torch.stack([quality.double(), bases.double(), lengths.sum().double()])
            dist.all_reduce(stats)
            totals += stats
            called.append(path[emitted].to(torch.uint8).cpu())
            if cuda:
                torch.cuda.synchronize()
            times.append(time.perf_counter() - t0)
            if step % 10 == 0 and rank == 0:
                q, b, s = totals.tolist()
                print(f"step {step:3d}  mean q {q / max(b, 1):.2f}  bases per sample {b / s:.4f}", flush=True)
    tail = times[len(times) // 2 :]
    print(
        f"rank {rank}: {sum(c.numel() for c in called)} bases, "
        f"time per step: {1e3 * sum(tail) / len(tail):.2f} ms"
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
