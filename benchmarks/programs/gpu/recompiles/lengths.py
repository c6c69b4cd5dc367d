"""Sentences of many lengths, each compiled for itself."""

import torch
from torch import nn

model = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True).to("cuda", torch.float16).eval()
encode = torch.compile(model, dynamic=False)
with torch.no_grad():
    for turn in range(40):
        length = (17, 23, 31, 48, 64)[turn % 5]
        out = encode(torch.randn(8, length, 256, device="cuda", dtype=torch.float16))
print(out.shape)
