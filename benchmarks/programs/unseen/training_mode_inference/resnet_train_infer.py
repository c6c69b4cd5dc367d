import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class B(nn.Module):
    def __init__(s, c):
        super().__init__()
        s.a = nn.Conv2d(c, c, 3, padding=1)
        s.n = nn.BatchNorm2d(c)
        s.b = nn.Conv2d(c, c, 3, padding=1)
        s.m = nn.BatchNorm2d(c)

    def forward(s, x):
        return F.relu(x + s.m(s.b(F.relu(s.n(s.a(x))))))


m = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), B(16), B(16), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
)
c = torch.compile(m)
x = torch.randn(8, 3, 32, 32)
for i in range(60):
    print(c(x).argmax(1)[0].item(), end=" ")
