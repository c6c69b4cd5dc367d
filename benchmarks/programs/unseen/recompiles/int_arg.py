import torch

torch.manual_seed(0)
import torch._dynamo


class Sched:
    pass


@torch.compile
def f(x, cfg):
    return torch.sin(x) * cfg["scale"] + cfg["name"].__len__()


x = torch.randn(100, 100)
for i in range(60):
    f(x, {"scale": 1.0, "name": "a" * (i % 12)})
