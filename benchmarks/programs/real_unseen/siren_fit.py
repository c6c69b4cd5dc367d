"""An image as a SIREN."""

import torch
from siren_pytorch import SirenNet

torch.manual_seed(0)
net = torch.compile(SirenNet(dim_in=2, dim_hidden=128, dim_out=3, num_layers=4, w0_initial=30.0))
grid = torch.stack(
    torch.meshgrid(torch.linspace(-1, 1, 128), torch.linspace(-1, 1, 128), indexing="ij"), -1
).view(-1, 2)
image = torch.rand(128 * 128, 3)
opt = torch.optim.Adam(net.parameters(), 1e-4)
for _ in range(30):
    loss = (net(grid) - image).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
