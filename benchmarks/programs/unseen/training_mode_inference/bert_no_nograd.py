import torch
import torch.nn as nn

torch.manual_seed(0)
m = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
c = torch.compile(m)
x = torch.randn(4, 64, 128)
preds = []
for i in range(60):
    preds.append(c(x).mean().item())
