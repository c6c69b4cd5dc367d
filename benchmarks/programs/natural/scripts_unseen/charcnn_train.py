"""Trains a sentence classifier on characters: convolutions of three widths, the maximum over time, dropout."""

import torch
import torch.nn as nn


class CharCNN(nn.Module):
    def __init__(self, letters=70, width=64):
        super().__init__()
        self.embed = nn.Embedding(letters, 32)
        self.convs = nn.ModuleList(nn.Conv1d(32, width, k) for k in (3, 5, 7))
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(3 * width, 4)

    def forward(self, ids):
        x = self.embed(ids).transpose(1, 2)
        x = torch.cat([torch.relu(conv(x)).amax(-1) for conv in self.convs], 1)
        return self.head(self.drop(x))


torch.manual_seed(0)
model = CharCNN()
net = torch.compile(model)
opt = torch.optim.AdamW(model.parameters(), 1e-3)
for step in range(25):
    ids, y = torch.randint(70, (64, 200)), torch.randint(4, (64,))
    loss = nn.functional.cross_entropy(net(ids), y, label_smoothing=0.1)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
print(loss.item())
