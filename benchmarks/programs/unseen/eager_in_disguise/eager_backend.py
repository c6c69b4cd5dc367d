import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.Linear(256, 256)
        s.n = nn.LayerNorm(256)

    def forward(s, x):
        return F.gelu(s.n(s.a(x)))


m = torch.compile(Net().eval(), backend="eager")
x = torch.randn(512, 256)
with torch.no_grad():
    for i in range(200):
        m(x)
