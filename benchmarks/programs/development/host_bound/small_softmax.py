import torch


@torch.compile
def attention_scores(q, k):
    return torch.softmax(q @ k.T / 8.0, dim=-1)


q, k = torch.randn(24, 64), torch.randn(24, 64)
for _ in range(500):
    attention_scores(q, k)
