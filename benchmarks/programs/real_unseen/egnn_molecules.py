"""EGNN over small molecules: energies of batches."""

import torch
from egnn_pytorch import EGNN_Network

torch.manual_seed(0)
net = EGNN_Network(num_tokens=21, num_positions=64, dim=32, depth=3, num_nearest_neighbors=8)
net = torch.compile(net.eval())
feats = torch.randint(0, 21, (4, 64))
coors = torch.randn(4, 64, 3)
mask = torch.ones_like(feats).bool()
with torch.no_grad():
    for _ in range(30):
        f, c = net(feats, coors, mask=mask)
        coors = coors + 0.01 * (c - coors)
print(f.mean().item())
