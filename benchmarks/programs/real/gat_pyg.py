"""Batches of small molecules through torch_geometric's GATv2 and a global pool; sizes vary."""

import torch
from torch_geometric.nn import GATv2Conv, global_mean_pool

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([GATv2Conv(64, 16, heads=4) for _ in range(3)])
        self.out = torch.nn.Linear(64, 1)

    def forward(self, x, edge_index, batch):
        for layer in self.layers:
            x = layer(x, edge_index).relu()
        return self.out(global_mean_pool(x, batch, size=64))


model = Net().to(device).eval()
compiled = torch.compile(model)
with torch.no_grad():
    for step in range(30):
        n = 64 * (18 + step % 5)
        x = torch.randn(n, 64, device=device)
        edges = torch.randint(0, n, (2, 4 * n), device=device)
        batch = torch.arange(n, device=device) * 64 // n
        out = compiled(x, edges, batch)
print(out.mean().item())
