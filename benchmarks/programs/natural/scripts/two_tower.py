"""Two-tower retrieval: bags of item ids, in-batch softmax, recall by item()."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Tower(nn.Module):
    def __init__(self, ids, dim=64):
        super().__init__()
        self.bag = nn.EmbeddingBag(ids, dim, mode="mean")
        self.net = nn.Sequential(nn.Linear(dim, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, dim))

    def forward(self, ids, offsets):
        return F.normalize(self.net(self.bag(ids, offsets)), dim=-1)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = Tower(50_000), Tower(20_000)
        self.temperature = nn.Parameter(torch.tensor(0.07))

    def forward(self, ui, uo, ii, io):
        scores = self.user(ui, uo) @ self.item(ii, io).T / self.temperature
        return F.cross_entropy(scores, torch.arange(scores.shape[0])), scores


torch.manual_seed(0)
model = TwoTower()
fast = torch.compile(model)
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
B = 512
for step in range(30):
    n = torch.randint(5, 25, (B,))
    uo = torch.cat([torch.zeros(1, dtype=torch.long), n.cumsum(0)[:-1]])
    ui = torch.randint(0, 50_000, (int(n.sum()),))
    io = torch.arange(B) * 4
    ii = torch.randint(0, 20_000, (4 * B,))
    loss, scores = fast(ui, uo, ii, io)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    hit = (scores.argmax(1) == torch.arange(B)).float().mean().item()
print(loss.item(), hit)
