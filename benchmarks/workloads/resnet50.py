"""ResNet-50 in half precision, batch 16, inference."""

import torch
import torchvision

torch.manual_seed(0)
model = torchvision.models.resnet50(weights=None).eval().half().to("cuda", memory_format=torch.channels_last)
compiled = torch.compile(model)
x = torch.randn(16, 3, 224, 224, device="cuda", dtype=torch.half).to(memory_format=torch.channels_last)
with torch.no_grad():
    for _ in range(3):
        compiled(x)
