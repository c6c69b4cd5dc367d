import torch
import torch.nn as nn

torch.manual_seed(0)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(256, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Dropout(0.3), nn.Linear(512, 10)
        )

    def forward(self, x):
        return self.body(x).softmax(-1)


model = torch.compile(Classifier())
x = torch.randn(128, 256)
total = 0
for _ in range(80):
    total += model(x).argmax(-1).sum().item()
print(total)
