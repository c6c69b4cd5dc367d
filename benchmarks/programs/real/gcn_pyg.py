"""Node classification with torch_geometric: two GraphSAGE layers on a random graph, full-batch training."""

import torch
import torch.nn.functional as F
from torch_geometric.nn import SAGEConv

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = SAGEConv(128, 256)
        self.b = SAGEConv(256, 40)

    def forward(self, x, edge_index):
        x = F.dropout(F.relu(self.a(x, edge_index)), p=0.5, training=self.training)
        return self.b(x, edge_index)


n, e = 20000, 200000
x = torch.randn(n, 128, device=device)
edges = torch.randint(0, n, (2, e), device=device)
y = torch.randint(0, 40, (n,), device=device)
model = Net().to(device)
compiled = torch.compile(model)
opt = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(30):
    opt.zero_grad()
    loss = F.cross_entropy(compiled(x, edges), y)
    loss.backward()
    opt.step()
print(loss.item())
