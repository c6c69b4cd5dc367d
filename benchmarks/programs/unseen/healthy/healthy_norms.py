import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class N(nn.Module):
    def __init__(s):
        super().__init__()
        s.n = nn.LayerNorm(1024)

    def forward(s, x):
        return F.softmax(F.gelu(s.n(x)), -1)


c = torch.compile(N().eval())
x = torch.randn(2048, 1024)
with torch.no_grad():
    for i in range(300):
        c(x)
