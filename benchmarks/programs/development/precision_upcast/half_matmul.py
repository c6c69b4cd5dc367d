import torch
from torch import nn


class Projection(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1024, 1024, dtype=torch.bfloat16))

    def forward(self, x):
        return (x.float() @ self.weight.float().T).to(torch.bfloat16)


model = torch.compile(Projection().eval())
x = torch.randn(256, 1024, dtype=torch.bfloat16)
with torch.no_grad():
    for _ in range(15):
        model(x)
