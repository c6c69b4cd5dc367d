import torch
import torch.nn as nn

torch.manual_seed(0)
layer = torch.compile(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, norm_first=True).eval())
x = torch.randn(4, 128, 512)


class W:
    pass


with torch.no_grad():
    for _ in range(30):
        layer(x)
