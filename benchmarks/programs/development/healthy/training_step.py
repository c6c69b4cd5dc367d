import torch
from torch import nn

model = nn.Sequential(
    nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 256), nn.GELU(), nn.Linear(256, 10)
)
step = torch.compile(model)
optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
x, target = torch.randn(512, 256), torch.randint(0, 10, (512,))
for _ in range(15):
    optimiser.zero_grad()
    nn.functional.cross_entropy(step(x), target).backward()
    optimiser.step()
