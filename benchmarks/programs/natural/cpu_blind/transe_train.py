"""Trains TransE vectors of a knowledge graph with corrupted tails and a margin loss."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class TransE(nn.Module):
    def __init__(self, entities, relations, dim=64, margin=1.0):
        super().__init__()
        self.entity = nn.Embedding(entities, dim)
        self.relation = nn.Embedding(relations, dim)
        nn.init.uniform_(self.entity.weight, -0.1, 0.1)
        nn.init.uniform_(self.relation.weight, -0.1, 0.1)
        self.margin = margin

    def forward(self, head, relation, tail, corrupted):
        h = F.normalize(self.entity(head), dim=-1)
        t = F.normalize(self.entity(tail), dim=-1)
        n = F.normalize(self.entity(corrupted), dim=-1)
        translated = h + self.relation(relation)
        good = (translated - t).abs().sum(-1)
        bad = (translated[:, None, :] - n).abs().sum(-1)
        return F.relu(self.margin + good[:, None] - bad).mean()


torch.manual_seed(0)
ENTITIES, RELATIONS, BATCH, NEGATIVES = 15000, 240, 2048, 4
model = TransE(ENTITIES, RELATIONS)
optimiser = torch.optim.Adagrad(model.parameters(), lr=0.1)
loss_of = torch.compile(model)

popular = (torch.rand(25, BATCH, 2) ** 3 * ENTITIES).long()
relation = torch.randint(0, RELATIONS, (25, BATCH))
corrupted = torch.randint(0, ENTITIES, (25, BATCH, NEGATIVES))
for k in range(50):
    i = k % 25
    optimiser.zero_grad()
    loss = loss_of(popular[i, :, 0], relation[i], popular[i, :, 1], corrupted[i])
    loss.backward()
    optimiser.step()
print("loss", loss.item())
