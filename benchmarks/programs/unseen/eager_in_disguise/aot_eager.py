import torch
import torch.nn as nn

torch.manual_seed(0)
net = torch.compile(
    nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256)).eval(), backend="aot_eager"
)
x = torch.randn(128, 256)
with torch.no_grad():
    for _ in range(100):
        net(x)
