import time

import torch
from torch import nn

model = nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 512)).eval()
x = torch.randn(128, 512)
with torch.no_grad():
    start = time.time()
    for _ in range(50):
        model(x)
    print("eager", time.time() - start)
    fast = torch.compile(model)
    start = time.time()
    for _ in range(50):
        fast(x)
    print("compiled", time.time() - start)
