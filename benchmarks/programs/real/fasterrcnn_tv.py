"""Detection with torchvision's Faster R-CNN on batches of images of different sizes, the same in each batch.

With sizes that change between batches Dynamo makes heights symbolic, and tracing the model once takes minutes.
"""

import torch
import torchvision

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
    weights=None, weights_backbone=None
)
model = model.to(device).eval()
compiled = torch.compile(model)
sizes = [(240, 320), (256, 320), (240, 288), (240, 320)]
with torch.no_grad():
    for step in range(24):
        boxes = compiled([torch.rand(3, h, w, device=device) for h, w in sizes])
print(sum(len(b["boxes"]) for b in boxes))
