import torch
import torch.nn as nn

torch.manual_seed(0)
m = nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 512)).eval()
c = torch.compile(m)
x = torch.randn(512, 512)
with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    for _ in range(40):
        c(x)
