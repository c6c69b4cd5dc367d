import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
m = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
c = torch.compile(m)
o = torch.optim.SGD(m.parameters(), lr=0.1)
x = torch.randn(256, 784)
y = torch.randint(0, 10, (256,))
for i in range(400):
    o.zero_grad()
    F.cross_entropy(c(x), y).backward()
    o.step()
