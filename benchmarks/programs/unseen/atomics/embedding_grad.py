import torch
import torch.nn as nn

torch.manual_seed(0)
emb = nn.Embedding(2000, 64)


@torch.compile
def loss(i):
    return emb(i).pow(2).sum()


i = torch.randint(0, 2000, (40000,))
for _ in range(30):
    emb.zero_grad()
    loss(i).backward()
