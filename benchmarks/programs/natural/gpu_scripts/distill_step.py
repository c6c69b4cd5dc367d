"""Knowledge distillation: a frozen teacher with an exponential average, a student, temperature and a cosine term."""

import torch
import torch.nn.functional as F
from torch import nn

dev = "cuda"


def cnn(w):
    layers, c = [], 3
    for k, s in ((w, 1), (w, 2), (2 * w, 1), (2 * w, 2), (4 * w, 1), (4 * w, 2)):
        layers += [nn.Conv2d(c, k, 3, s, 1, bias=False), nn.BatchNorm2d(k), nn.SiLU()]
        c = k
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 100))


student, teacher = cnn(48).to(dev), cnn(48).to(dev)
opt = torch.optim.SGD(student.parameters(), 0.05, momentum=0.9)


def step(x, y):
    with torch.no_grad():
        soft = F.softmax(teacher(x) / 4, -1)
    out = student(x)
    kd = F.kl_div(F.log_softmax(out / 4, -1), soft, reduction="batchmean") * 16
    ce = F.cross_entropy(out, y, label_smoothing=0.1)
    return 0.7 * kd + 0.3 * ce


fast = torch.compile(step)
x = torch.randn(128, 3, 64, 64, device=dev)
y = torch.randint(0, 100, (128,), device=dev)
for _ in range(40):
    loss = fast(x, y)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    with torch.no_grad():
        for a, b in zip(teacher.parameters(), student.parameters()):
            a.lerp_(b, 0.01)
print(loss.item())
