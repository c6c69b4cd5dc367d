"""A reinforcement learner's policy, called for 64 environments."""

import torch
from torch import nn

torch.set_float32_matmul_precision("high")
policy = (
    nn.Sequential(nn.Linear(24, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 4))
    .cuda()
    .eval()
)
act = torch.compile(policy)
observation = torch.randn(64, 24, device="cuda")
with torch.no_grad():
    for _ in range(300):
        action = act(observation)
print(action.shape)
