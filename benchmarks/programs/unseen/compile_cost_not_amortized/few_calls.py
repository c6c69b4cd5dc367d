import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(s, d):
        super().__init__()
        s.q = nn.Linear(d, 3 * d)
        s.o = nn.Linear(d, d)
        s.f1 = nn.Linear(d, 4 * d)
        s.f2 = nn.Linear(4 * d, d)
        s.n1 = nn.LayerNorm(d)
        s.n2 = nn.LayerNorm(d)

    def forward(s, x):
        b, t, d = x.shape
        q, k, v = s.q(s.n1(x)).chunk(3, -1)
        q, k, v = (z.view(b, t, 4, -1).transpose(1, 2) for z in (q, k, v))
        x = x + s.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        return x + s.f2(F.gelu(s.f1(s.n2(x))))


m = nn.Sequential(*[Block(128) for _ in range(4)]).eval()
c = torch.compile(m)
x = torch.randn(2, 64, 128)
with torch.no_grad():
    for i in range(3):
        y = c(x)
print(y.shape)
