"""Trains a next-song recommender on listening histories with in-batch negatives."""

import torch
import torch.nn as nn
import torch.nn.functional as F

dev = "cuda"
torch.manual_seed(0)
songs, artists, dim = 100_000, 8_000, 96
batch, history = 4096, 100
hist = (torch.rand(batch, history, device=dev) ** 8 * songs).long()
hist[torch.arange(history, device=dev)[None] >= torch.randint(5, history, (batch, 1), device=dev)] = 0
artist_of = torch.randint(0, artists, (songs,), device=dev)
nxt = (torch.rand(batch, device=dev) ** 4 * (songs - 1)).long() + 1


class NextSong(nn.Module):
    def __init__(self):
        super().__init__()
        self.song = nn.Embedding(songs, dim)
        self.artist = nn.Embedding(artists, dim)
        self.tower = nn.Sequential(nn.Linear(dim, 256), nn.ReLU(), nn.Linear(256, dim))

    def forward(self, hist, nxt, artist_of):
        mask = (hist > 0).unsqueeze(-1).float()
        e = self.song(hist) + self.artist(artist_of[hist])
        user = self.tower((e * mask).sum(1) / mask.sum(1).clamp_min(1))
        item = self.song(nxt) + self.artist(artist_of[nxt])
        logits = F.normalize(user, dim=-1) @ F.normalize(item, dim=-1).t() / 0.07
        return F.cross_entropy(logits, torch.arange(nxt.numel(), device=nxt.device))


model = NextSong().to(dev)
fast = torch.compile(model)
opt = torch.optim.SGD(model.parameters(), lr=0.5)
for _ in range(40):
    opt.zero_grad(set_to_none=True)
    loss = fast(hist, nxt, artist_of)
    loss.backward()
    opt.step()
print(loss.item())
