import torch
import torch._inductor.config

torch._inductor.config.cpp.threads = 1


@torch.compile
def fade(a, b, t):
    return torch.lerp(a.exp(), b.exp(), t).log() + torch.sin(a)


a, b = torch.rand(3000, 1000), torch.rand(3000, 1000)
for _ in range(15):
    fade(a, b, 0.3)
