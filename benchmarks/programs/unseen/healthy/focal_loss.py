import torch
import torch.nn.functional as F

torch.manual_seed(0)


@torch.compile
def focal(logits, target):
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    return ((1 - (p * target + (1 - p) * (1 - target))) ** 2 * ce).mean()


a = torch.randn(3000, 1000)
b = (torch.rand(3000, 1000) > 0.5).float()
for _ in range(200):
    focal(a, b)
