import torch
import torch.nn as nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(s):
        super().__init__()
        s.l = nn.ModuleList([nn.Linear(64, 64) for _ in range(5)])
        s.seen = []

    def forward(s, x):
        x = torch.relu(s.l[0](x))
        s.stat(x)
        x = torch.relu(s.l[1](x))
        s.stat(x)
        x = torch.relu(s.l[2](x))
        s.stat(x)
        x = torch.relu(s.l[3](x))
        s.stat(x)
        return s.l[4](x)

    @torch.compiler.disable
    def stat(s, x):
        s.seen.append(x.abs().max())


m = torch.compile(Net().eval())
x = torch.randn(32, 64)
with torch.no_grad():
    for i in range(500):
        m(x)
