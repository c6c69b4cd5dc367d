"""An evaluation over batches of changing size."""

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(16, 32, 3, padding=1)
        self.head = nn.Linear(32, 5)

    def forward(self, x, names):
        h = torch.relu(self.conv(x)).mean(-1)
        return {name: self.head(h) for name in names}


model = torch.compile(Classifier().eval())
with torch.no_grad():
    for step in range(50):
        names = ["a", "b", "c", "d", "e", "f"][: 1 + step % 5]
        model(torch.randn(8, 16, 40), names)
