import torch
from torch import nn

policy = torch.compile(
    nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2)).eval()
)
observation = torch.randn(1, 8)
with torch.no_grad():
    for _ in range(500):
        policy(observation)
