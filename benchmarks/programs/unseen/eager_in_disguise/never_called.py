import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10)).eval()
compiled = torch.compile(model)
x = torch.randn(64, 128)
with torch.no_grad():
    for _ in range(100):
        y = model(x)
print(y.sum())
