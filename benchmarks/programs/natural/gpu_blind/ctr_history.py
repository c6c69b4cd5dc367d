"""Click model with a pooled browsing history, one GPU training.

Every impression carries the categories the user has browsed lately (at most
40, most users have few), plus item and context features.  The history is
pooled with a learned recency weight; a small MLP gives the click logit.
"""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = "cuda"


class HistoryPool(nn.Module):
    def __init__(self, categories, dim, max_len):
        super().__init__()
        self.embed = nn.Embedding(categories + 1, dim)  # 0 stands for "none"
        self.recency = nn.Parameter(torch.linspace(0.0, -1.5, max_len))
        nn.init.normal_(self.embed.weight, std=0.05)

    def forward(self, history):
        present = (history > 0).to(self.recency.dtype)
        w = torch.exp(self.recency) * present
        w = w / (w.sum(dim=1, keepdim=True) + 1e-6)
        return (self.embed(history) * w.unsqueeze(-1)).sum(dim=1)


class ClickModel(nn.Module):
    def __init__(self, categories, items, dim=32, max_len=40):
        super().__init__()
        self.history = HistoryPool(categories, dim, max_len)
        self.item = nn.Embedding(items, dim)
        nn.init.normal_(self.item.weight, std=0.05)
        self.mlp = nn.Sequential(
            nn.Linear(3 * dim + 6, 128),
            nn.ReLU(),
            nn.Linear(128, 64),
            nn.ReLU(),
            nn.Linear(64, 1),
        )

    def forward(self, history, item, context):
        taste = self.history(history)
        thing = self.item(item)
        x = torch.cat([taste, thing, taste * thing, context], dim=1)
        return self.mlp(x).squeeze(1)


class ImpressionLog:
    """Synthetic log: power-law items, geometric history lengths."""

    def __init__(self, categories, items, max_len, seed=71):
        self.gen = torch.Generator(device=DEVICE).manual_seed(seed)
        self.categories, self.items, self.max_len = categories, items, max_len
        self.cat_of_item = torch.randint(1, categories + 1, (items,), device=DEVICE, generator=self.gen)

    def batch(self, n):
        g = self.gen
        u = torch.rand(n, device=DEVICE, generator=g)
        length = (-7.0 * torch.log1p(-u * 0.999)).long().clamp(0, self.max_len)
        hist = torch.randint(1, self.categories + 1, (n, self.max_len), device=DEVICE, generator=g)
        slot = torch.arange(self.max_len, device=DEVICE)
        hist = torch.where(slot < length[:, None], hist, 0)
        r = torch.rand(n, device=DEVICE, generator=g)
        item = (self.items * r**3).long().clamp_max(self.items - 1)
        context = torch.randn(n, 6, device=DEVICE, generator=g)
        liked = (hist // 16 == self.cat_of_item[item][:, None] // 16).any(dim=1)
        p = torch.sigmoid(-1.8 + 2.5 * liked.float() + 0.5 * context[:, 0])
        click = (torch.rand(n, device=DEVICE, generator=g) < p).float()
        return hist, item, context, click


def main():
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    categories, items, max_len = 2000, 200_000, 40
    log = ImpressionLog(categories, items, max_len)
    model = ClickModel(categories, items, max_len=max_len).to(DEVICE)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.03)

    @torch.compile
    def loss_fn(hist, item, context, click):
        return F.binary_cross_entropy_with_logits(model(hist, item, context), click)

    batches = [log.batch(65_536) for _ in range(6)]
    for step in range(32):
        batch = batches[step % len(batches)]
        torch.cuda.synchronize()
        t0 = time.perf_counter()
        loss = loss_fn(*batch)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        ms = (time.perf_counter() - t0) * 1e3
        print(f"step {step:2d}: {ms:8.3f} ms  loss {loss.item():.4f}")

    with torch.no_grad():
        hist, item, context, click = log.batch(65_536)
        p = torch.sigmoid(model(hist, item, context))
        print(
            f"held-out: mean prediction {p.mean().item():.4f}, "
            f"click rate {click.mean().item():.4f}, "
            f"lift {(p[click > 0].mean() / p[click == 0].mean()).item():.3f}"
        )


if __name__ == "__main__":
    main()
