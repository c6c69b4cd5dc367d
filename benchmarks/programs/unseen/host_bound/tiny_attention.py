import torch
import torch.nn.functional as F

torch.manual_seed(0)


@torch.compile
def attend(q, k, v):
    return F.softmax(q @ k.mT / 4, -1) @ v


q, k, v = (torch.randn(1, 8, 16) for _ in range(3))
for _ in range(500):
    attend(q, k, v)
