"""Training torchvision's ResNet-18 with channels last, autocast and a gradient scaler."""

import torch
import torchvision

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torchvision.models.resnet18(weights=None, num_classes=10).to(
    device, memory_format=torch.channels_last
)
step_fn = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=5e-4)
scaler = torch.amp.GradScaler(device)
x = torch.randn(128, 3, 64, 64, device=device).to(memory_format=torch.channels_last)
y = torch.randint(0, 10, (128,), device=device)
running = 0.0
for i in range(30):
    with torch.autocast(device, dtype=torch.float16):
        loss = torch.nn.functional.cross_entropy(step_fn(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    running += loss.item()
print(running / 30)
