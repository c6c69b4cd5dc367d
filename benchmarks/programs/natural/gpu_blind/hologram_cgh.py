"""Computer-generated holography: optimises the phase of a light modulator by gradient descent."""

import math

import torch

dev = "cuda"
torch.manual_seed(0)
h, w, pitch, z = 1024, 2048, 8e-6, 0.15
lam = torch.tensor([638e-9, 520e-9, 450e-9], device=dev).view(3, 1, 1)
target = torch.rand(3, h, w, device=dev)
fy = torch.fft.fftfreq(h, pitch).to(dev).view(1, h, 1)
fx = torch.fft.fftfreq(w, pitch).to(dev).view(1, 1, w)
phase = (torch.rand(3, h, w, device=dev) * 2 * math.pi).requires_grad_()
scale = torch.ones(3, 1, 1, device=dev, requires_grad=True)


def propagate(field):
    kz = torch.sqrt((1 / lam**2 - fx**2 - fy**2).clamp_min(0))
    transfer = torch.exp(2j * math.pi * z * (kz - 1 / lam))
    return torch.fft.ifft2(torch.fft.fft2(field) * transfer)


def objective(phase, scale, target):
    image = propagate(torch.exp(1j * phase))
    amplitude = scale * image.abs()
    return ((amplitude - target.sqrt()) ** 2).mean()


fast = torch.compile(objective)
opt = torch.optim.Adam([phase, scale], lr=0.02)
for _ in range(40):
    opt.zero_grad(set_to_none=True)
    loss = fast(phase, scale, target)
    loss.backward()
    opt.step()
print(loss.item())
