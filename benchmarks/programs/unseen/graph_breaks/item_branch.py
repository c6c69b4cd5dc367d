import torch

torch.manual_seed(0)


@torch.compile
def step(x, w):
    h = torch.relu(x @ w)
    if h.mean().item() > 0.5:
        h = h / h.norm()
    h = torch.tanh(h @ w)
    if h.max() > 0.9:
        h = h * 0.9
    h = h - h.mean(-1, keepdim=True)
    if h.min().item() < -10:
        h = h + 1
    return h.softmax(-1)


x = torch.randn(64, 64)
w = torch.randn(64, 64) * 0.1
for i in range(400):
    step(x, w)
