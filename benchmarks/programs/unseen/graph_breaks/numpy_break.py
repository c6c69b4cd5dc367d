import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
import logging
import time

log = logging.getLogger("x")


def hook(t):
    torch._dynamo.graph_break()


class N(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.Linear(64, 64)
        s.b = nn.Linear(64, 64)
        s.c = nn.Linear(64, 64)

    def forward(s, x):
        x = F.gelu(s.a(x))
        t = time.time()
        print("a", end="")
        x = F.gelu(s.b(x))
        print("b", end="")
        return s.c(x).sum()


m = torch.compile(N().eval())
x = torch.randn(16, 64)
with torch.no_grad():
    for i in range(300):
        m(x)
