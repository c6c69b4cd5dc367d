import torch
import torch.nn as nn

torch.manual_seed(0)
import time

m = nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 512)).eval()
x = torch.randn(128, 512)
with torch.no_grad():
    t = time.time()
    m(x)
    print("eager", time.time() - t)
    c = torch.compile(m)
    t = time.time()
    c(x)
    print("compiled", time.time() - t)
