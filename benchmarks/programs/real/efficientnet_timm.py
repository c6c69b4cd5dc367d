"""Inference of an EfficientNet of timm in half precision, channels last."""

import timm
import torch

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = timm.create_model("efficientnet_b0", pretrained=False).to(device).half().eval()
model = model.to(memory_format=torch.channels_last)
compiled = torch.compile(model)
images = torch.randn(64, 3, 224, 224, device=device, dtype=torch.half).to(memory_format=torch.channels_last)
scores = 0.0
with torch.no_grad():
    for batch in range(40):
        scores += compiled(images).float().max(dim=1).values.mean()
print(scores.item())
