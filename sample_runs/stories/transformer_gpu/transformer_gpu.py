"""A small transformer on a GPU: its kernels are shorter than launching them one by one.

Captured once as it is (`run`) and once with ``--mode reduce-overhead`` (`run_reduce_overhead`), where CUDA
graphs launch all of them at once.
"""

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, LAYERS = 512, 8, 6


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        heads = self.qkv(self.before(x)).view(*x.shape[:2], 3 * HEADS, -1).transpose(1, 2)
        q, k, v = heads.chunk(3, 1)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.after(x))))


torch.manual_seed(0)
model = nn.Sequential(*(Block() for _ in range(LAYERS))).eval().to("cuda", torch.float16)
fast = torch.compile(model)
x = torch.randn(2, 128, WIDTH, device="cuda", dtype=torch.float16)
with torch.inference_mode():
    for _ in range(200):
        y = fast(x)
print(float(y.float().mean()))
