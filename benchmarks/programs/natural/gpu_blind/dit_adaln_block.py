"""Two diffusion-transformer blocks with adaptive layer norm, in bfloat16, as in image sampling."""

import torch
import torch.nn as nn
import torch.nn.functional as F

dev = "cuda"
torch.manual_seed(0)
dim, heads, tokens, batch = 1152, 16, 1024, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1 = nn.LayerNorm(dim, elementwise_affine=False)
        self.n2 = nn.LayerNorm(dim, elementwise_affine=False)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)
        self.ada = nn.Linear(dim, 6 * dim)

    def forward(self, x, c):
        s1, b1, g1, s2, b2, g2 = self.ada(F.silu(c)).unsqueeze(1).chunk(6, -1)
        h = self.n1(x) * (1 + s1) + b1
        q, k, v = self.qkv(h).view(x.shape[0], -1, 3, heads, dim // heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + g1 * self.proj(a)
        h = self.n2(x) * (1 + s2) + b2
        return x + g2 * self.down(F.gelu(self.up(h), approximate="tanh"))


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x, c):
        for b in self.blocks:
            x = b(x, c)
        return x


net = torch.compile(Stack().to(dev, torch.bfloat16).eval())
x = torch.randn(batch, tokens, dim, device=dev, dtype=torch.bfloat16)
c = torch.randn(batch, dim, device=dev, dtype=torch.bfloat16)
with torch.no_grad():
    for _ in range(40):
        y = net(x, c)
print(y.float().std().item())
