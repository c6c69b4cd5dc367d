"""Two-layer GCN on a citation graph of Cora's size, full batch, with evaluation each epoch."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class GCNConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o, bias=False)
        self.bias = nn.Parameter(torch.zeros(o))

    def forward(self, x, edge_index, norm):
        x = self.lin(x)
        src, dst = edge_index
        out = torch.zeros_like(x)
        out.index_add_(0, dst, x[src] * norm[:, None])
        return out + self.bias


class GCN(nn.Module):
    def __init__(self, f, h, c):
        super().__init__()
        self.a, self.b = GCNConv(f, h), GCNConv(h, c)

    def forward(self, x, edge_index):
        n = x.shape[0]
        loop = torch.arange(n)
        edge_index = torch.cat([edge_index, torch.stack([loop, loop])], 1)
        deg = torch.zeros(n).scatter_add(0, edge_index[1], torch.ones(edge_index.shape[1]))
        dinv = deg.pow(-0.5)
        norm = dinv[edge_index[0]] * dinv[edge_index[1]]
        x = F.dropout(x, 0.5, self.training)
        x = F.relu(self.a(x, edge_index, norm))
        x = F.dropout(x, 0.5, self.training)
        return F.log_softmax(self.b(x, edge_index, norm), 1)


torch.manual_seed(0)
x = (torch.rand(2708, 1433) < 0.013).float()
edge_index = torch.randint(0, 2708, (2, 10556))
y = torch.randint(0, 7, (2708,))
train = torch.rand(2708) < 0.05
model = GCN(1433, 16, 7)
fast = torch.compile(model)
opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for epoch in range(25):
    model.train()
    opt.zero_grad()
    out = fast(x, edge_index)
    loss = F.nll_loss(out[train], y[train])
    loss.backward()
    opt.step()
    model.eval()
    with torch.no_grad():
        acc = (fast(x, edge_index).argmax(1) == y)[~train].float().mean().item()
print(loss.item(), acc)
