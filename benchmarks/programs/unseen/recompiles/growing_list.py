import torch
import torch.nn as nn

torch.manual_seed(0)


class Ensemble(nn.Module):
    def __init__(self):
        super().__init__()
        self.history = []
        self.fc = nn.Linear(32, 32)

    def forward(self, x):
        x = torch.relu(self.fc(x))
        self.history.append(x)
        return sum(self.history) / len(self.history)


net = torch.compile(Ensemble().eval())
with torch.no_grad():
    for _ in range(20):
        net(torch.randn(16, 32))
