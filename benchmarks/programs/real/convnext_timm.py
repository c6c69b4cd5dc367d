"""ConvNeXt of timm, inference in float32 with TF32."""

import timm
import torch

torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
device = "cuda" if torch.cuda.is_available() else "cpu"
model = timm.create_model("convnext_tiny", pretrained=False).to(device).eval()
compiled = torch.compile(model)
images = torch.randn(16, 3, 224, 224, device=device)
with torch.inference_mode():
    for _ in range(30):
        out = compiled(images)
print(out.mean().item())
