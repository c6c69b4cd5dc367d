"""FT-Transformer on a table of clicks, validation after each epoch."""

import torch
import torch.nn.functional as F
from tab_transformer_pytorch import FTTransformer

torch.manual_seed(0)
model = FTTransformer(
    categories=(10, 5, 6, 5, 8),
    num_continuous=10,
    dim=32,
    dim_out=1,
    depth=4,
    heads=4,
    attn_dropout=0.1,
    ff_dropout=0.1,
)
net = torch.compile(model)
cat, num, y = torch.randint(0, 5, (3000, 5)), torch.randn(3000, 10), torch.rand(3000, 1)
opt = torch.optim.AdamW(model.parameters(), 1e-3)
for epoch in range(2):
    model.train()
    for i in range(0, 2500, 250):
        loss = F.binary_cross_entropy_with_logits(net(cat[i : i + 250], num[i : i + 250]), y[i : i + 250])
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        print(epoch, F.binary_cross_entropy_with_logits(net(cat[2500:], num[2500:]), y[2500:]).item())
