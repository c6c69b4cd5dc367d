"""Graph breaks of several kinds, and recompiles because sizes and a Python number change."""

import torch


class Noisy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(32, 32)
        self.second = torch.nn.Linear(32, 32)

    def forward(self, x, step):
        x = self.first(x).relu()
        if x.sum() > 0:  # the branch depends on data
            x = x * 2
        print("step", step)  # a side effect in the middle
        scale = x.max().item()  # a value that leaves the graph
        return self.second(x) / scale + step


device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = torch.compile(Noisy().to(device))
with torch.no_grad():
    for step, size in enumerate((4, 8, 16)):
        model(torch.randn(size, 32, device=device), step * 0.5)
