"""Detection with torchvision's Faster R-CNN on images of different sizes."""

import torch
import torchvision

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
    weights=None, weights_backbone=None
)
model = model.to(device).eval()
compiled = torch.compile(model)
sizes = [(240, 320), (256, 320), (240, 288)]
with torch.no_grad():
    for step in range(24):
        h, w = sizes[step % 3]
        boxes = compiled([torch.rand(3, h, w, device=device) for _ in range(4)])
print(sum(len(b["boxes"]) for b in boxes))
