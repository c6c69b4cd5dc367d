"""Message passing with a sparse adjacency matrix."""

import torch


class Layer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = torch.nn.Linear(width, width)

    def forward(self, adjacency, features):
        return torch.relu(self.mix(torch.sparse.mm(adjacency, features)))


torch.manual_seed(0)
places = torch.randint(0, 500, (2, 3000))
adjacency = torch.sparse_coo_tensor(places, torch.rand(3000), (500, 500)).coalesce()
layer = torch.compile(Layer(32))
with torch.no_grad():
    features = torch.randn(500, 32)
    for _ in range(10):
        features = layer(adjacency, features)
print(tuple(features.shape))
