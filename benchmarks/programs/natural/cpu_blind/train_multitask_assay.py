"""Multi-task regression over assay targets: shared trunk, one head per assay."""

import copy
import time

import torch
import torch.nn as nn

NUM_TASKS = 20
FEATURES = 96
TRUNK = 128
HEAD = 32
BATCH = 128
WARMUP = 5
STEPS = 50


class Head(nn.Module):
    def __init__(self, d_in, d_hidden):
        super().__init__()
        self.fc1 = nn.Linear(d_in, d_hidden)
        self.norm = nn.LayerNorm(d_hidden)
        self.fc2 = nn.Linear(d_hidden, d_hidden)
        self.out = nn.Linear(d_hidden, 1)
        self.act = nn.ReLU()

    def forward(self, h):
        z = self.act(self.norm(self.fc1(h)))
        z = z + self.act(self.fc2(z))
        return self.out(z)


class MultiTaskNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(FEATURES, TRUNK),
            nn.ReLU(),
            nn.Linear(TRUNK, TRUNK),
            nn.ReLU(),
        )
        self.heads = nn.ModuleList([Head(TRUNK, HEAD) for _ in range(NUM_TASKS)])

    def forward(self, x):
        h = self.trunk(x)
        return torch.cat([head(h) for head in self.heads], dim=1)


class EMA:
    def __init__(self, model, decay=0.995):
        self.decay = decay
        self.shadow = copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.lerp_(p, 1 - self.decay)


def masked_mse(pred, target, mask):
    err = (pred - target) ** 2 * mask
    return err.sum() / mask.sum().clamp(min=1)


def make_batches(n, gen):
    w = torch.randn(FEATURES, NUM_TASKS, generator=gen) / FEATURES**0.5
    for _ in range(n):
        x = torch.randn(BATCH, FEATURES, generator=gen)
        y = torch.tanh(x @ w) + 0.05 * torch.randn(BATCH, NUM_TASKS, generator=gen)
        m = (torch.rand(BATCH, NUM_TASKS, generator=gen) > 0.4).float()
        yield x, y, m


def main():
    torch.manual_seed(7)
    gen = torch.Generator().manual_seed(1)
    model = MultiTaskNet()
    ema = EMA(model)
    net = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=WARMUP + STEPS)

    batches = list(make_batches(WARMUP + STEPS, gen))

    def train_step(batch):
        x, y, m = batch
        loss = masked_mse(net(x), y, m)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        ema.update(model)
        return loss

    for b in batches[:WARMUP]:
        train_step(b)

    start = time.time()
    running = 0.0
    for b in batches[WARMUP:]:
        running += train_step(b).item()
    elapsed = time.time() - start

    n_params = sum(p.numel() for p in model.parameters())
    print(f"params: {n_params}, tensors: {len(list(model.parameters()))}")
    print(f"mean loss: {running / STEPS:.5f}")
    print(f"{elapsed / STEPS * 1000:.2f} ms/iter")
    check = sum(p.double().abs().sum().item() for p in ema.shadow.parameters())
    print(f"checksum {check:.4f}")


if __name__ == "__main__":
    main()
