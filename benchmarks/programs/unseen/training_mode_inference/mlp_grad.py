import torch
import torch.nn as nn

torch.manual_seed(0)
m = nn.Sequential(
    nn.Linear(256, 256),
    nn.GELU(),
    nn.Dropout(0.1),
    nn.Linear(256, 256),
    nn.GELU(),
    nn.Dropout(0.1),
    nn.Linear(256, 10),
)
c = torch.compile(m)
for i in range(100):
    out = c(torch.ones(64, 256))
    pred = out.argmax(-1)
