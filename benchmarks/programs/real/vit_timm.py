"""Fine-tuning a small vision transformer of timm with mixup-free cross entropy, autocast."""

import timm
import torch

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = timm.create_model("vit_small_patch16_224", pretrained=False, num_classes=100).to(device).train()
model = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images = torch.randn(32, 3, 224, 224, device=device)
target = torch.randint(0, 100, (32,), device=device)
for step in range(25):
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
