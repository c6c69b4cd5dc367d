import torch
from torch import nn

model = nn.Sequential(
    nn.Linear(512, 1024),
    nn.ReLU(),
    nn.Dropout(0.5),
    nn.Linear(1024, 1024),
    nn.ReLU(),
    nn.Dropout(0.5),
    nn.Linear(1024, 10),
)
predict = torch.compile(model)
x = torch.randn(256, 512)
with torch.no_grad():
    for _ in range(40):
        predict(x).argmax(-1)
