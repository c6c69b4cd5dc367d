"""Segmentation evaluation: a torchvision DeepLab head and a torchmetrics confusion matrix in one compiled step."""

import torch
import torchvision
from torchmetrics.functional.classification import multiclass_jaccard_index

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torchvision.models.segmentation.lraspp_mobilenet_v3_large(
    weights=None, weights_backbone=None, num_classes=21
)
model = model.to(device).eval()


@torch.compile
def evaluate(images, target):
    prediction = model(images)["out"].argmax(1)
    return multiclass_jaccard_index(prediction, target, num_classes=21, validate_args=False)


images = torch.randn(8, 3, 256, 256, device=device)
target = torch.randint(0, 21, (8, 256, 256), device=device)
with torch.no_grad():
    for _ in range(30):
        score = evaluate(images, target)
print(score.item())
