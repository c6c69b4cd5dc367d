import os

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # left over from a debugging session

import torch
from torch import nn

block = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
compiled = torch.compile(block)
with torch.no_grad():
    for _ in range(50):
        compiled(torch.randn(4, 16, 64))
