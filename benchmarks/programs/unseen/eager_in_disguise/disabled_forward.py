import torch
import torch.nn as nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(256, 256)

    @torch.compiler.disable
    def forward(self, x):
        return torch.tanh(self.fc(x)) * 2


net = torch.compile(Net().eval())
x = torch.randn(128, 256)
with torch.no_grad():
    for _ in range(100):
        net(x)
