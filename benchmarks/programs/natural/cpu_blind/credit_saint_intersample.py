"""SAINT-style tabular transformer (column and intersample attention) for small-business credit default."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)

CARDS = (12, 50, 5, 4, 27, 8)
N_NUM = 10


def make_ledger(n, gen):
    cats = torch.stack([torch.randint(0, c, (n,), generator=gen) for c in CARDS], 1)
    nums = torch.randn(n, N_NUM, generator=gen)
    nums[:, 3] = nums[:, 0] * 0.6 + 0.4 * nums[:, 3]
    nums[:, 7] = nums[:, 7].exp()
    sector = torch.randn(CARDS[0], generator=gen)
    region = torch.randn(CARDS[1], generator=gen)
    score = sector[cats[:, 0]] + 0.5 * region[cats[:, 1]] + nums[:, 0] * nums[:, 1]
    score = score - torch.relu(nums[:, 2]) + 0.3 * nums[:, 7] * (cats[:, 3] == 1)
    p = torch.sigmoid(1.5 * score - 1.0)
    y = (torch.rand(n, generator=gen) < p).float()
    nums[torch.rand(n, N_NUM, generator=gen) < 0.05] = float("nan")
    return cats, nums, y


class Attention(nn.Module):
    def __init__(self, dim, heads, drop=0.1):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.out = nn.Linear(dim, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.to_qkv(x).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        sim = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
        attn = self.drop(sim.softmax(dim=-1))
        y = torch.einsum("bhij,bhjd->bhid", attn, v)
        return self.out(y.transpose(1, 2).reshape(b, n, d))


class GEGLU(nn.Module):
    def __init__(self, dim, mult=2, drop=0.1):
        super().__init__()
        self.up = nn.Linear(dim, dim * mult * 2)
        self.down = nn.Linear(dim * mult, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        a, gate = self.up(x).chunk(2, dim=-1)
        return self.down(self.drop(a * F.gelu(gate)))


class SaintLayer(nn.Module):
    def __init__(self, dim, cols, row_dim):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.n3, self.n4 = nn.LayerNorm(row_dim), nn.LayerNorm(row_dim)
        self.col_attn, self.col_ff = Attention(dim, 4), GEGLU(dim)
        self.squeeze = nn.Linear(dim * cols, row_dim)
        self.row_attn, self.row_ff = Attention(row_dim, 4), GEGLU(row_dim)
        self.expand = nn.Linear(row_dim, dim * cols)

    def forward(self, x):
        x = x + self.col_attn(self.n1(x))
        x = x + self.col_ff(self.n2(x))
        rows = self.squeeze(x.flatten(1)).unsqueeze(0)
        rows = rows + self.row_attn(self.n3(rows))
        rows = rows + self.row_ff(self.n4(rows))
        return x + self.expand(rows.squeeze(0)).view_as(x)


class Saint(nn.Module):
    def __init__(self, dim=32, depth=2, row_dim=128):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(c, dim) for c in CARDS)
        self.num_mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(1, 50), nn.ReLU(), nn.Linear(50, dim)) for _ in range(N_NUM)
        )
        self.missing = nn.Parameter(0.02 * torch.randn(N_NUM, dim))
        self.cls = nn.Parameter(0.02 * torch.randn(1, 1, dim))
        cols = 1 + len(CARDS) + N_NUM
        self.layers = nn.ModuleList(SaintLayer(dim, cols, row_dim) for _ in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, cats, nums):
        tokens = [self.cls.expand(cats.shape[0], -1, -1)]
        for i, table in enumerate(self.tables):
            tokens.append(table(cats[:, i]).unsqueeze(1))
        absent = nums.isnan()
        filled = torch.nan_to_num(nums)
        for i, mlp in enumerate(self.num_mlps):
            value = torch.where(absent[:, i : i + 1], self.missing[i], mlp(filled[:, i : i + 1]))
            tokens.append(value.unsqueeze(1))
        x = torch.cat(tokens, dim=1)
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0]).squeeze(-1)


def auc(score, y):
    rank = score.argsort().argsort().float() + 1
    pos = y.sum()
    return ((rank[y == 1].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))).item()


def main():
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(3)
    cats, nums, y = make_ledger(10240, gen)
    split = 8192
    model = Saint()
    compiled = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    for epoch in range(3):
        model.train()
        order = torch.randperm(split, generator=gen)
        total = 0.0
        for idx in order.split(256):
            logit = compiled(cats[idx], nums[idx])
            loss = F.binary_cross_entropy_with_logits(logit, y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            score = torch.cat([model(c, v) for c, v in zip(cats[split:].split(256), nums[split:].split(256))])
        print(f"epoch {epoch}: loss {total / split:.4f}, AUC {auc(score, y[split:]):.3f}")


if __name__ == "__main__":
    main()
