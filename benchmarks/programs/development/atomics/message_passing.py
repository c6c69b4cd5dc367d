import torch


@torch.compile
def aggregate(nodes, source, target):
    messages = torch.relu(nodes[source])
    return torch.zeros_like(nodes).index_add(0, target, messages)


nodes = torch.randn(2000, 64)
source, target = torch.randint(0, 2000, (40000,)), torch.randint(0, 2000, (40000,))
for _ in range(15):
    aggregate(nodes, source, target)
