"""Style transfer by Gram matrices: an image is optimised through a frozen convolutional encoder."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def encoder():
    layers, c = [], 3
    for o in (16, 32, 64):
        layers += [
            nn.ReflectionPad2d(1),
            nn.Conv2d(c, o, 3),
            nn.InstanceNorm2d(o, affine=True),
            nn.ReLU(),
            nn.AvgPool2d(2),
        ]
        c = o
    return nn.Sequential(*layers)


def features(net, x):
    out = []
    for layer in net:
        x = layer(x)
        if isinstance(layer, nn.ReLU):
            out.append(x)
    return out


def gram(f):
    b, c, h, w = f.shape
    f = f.view(b, c, h * w)
    return f @ f.transpose(1, 2) / (c * h * w)


def tv(x):
    return (x[..., 1:, :] - x[..., :-1, :]).abs().mean() + (x[..., :, 1:] - x[..., :, :-1]).abs().mean()


torch.manual_seed(0)
net = encoder().requires_grad_(False)
style, content = torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128)
with torch.no_grad():
    targets = [gram(f) for f in features(net, style)]
    content_f = features(net, content)[-1]


@torch.compile
def loss_fn(image):
    fs = features(net, image)
    style_loss = sum(F.mse_loss(gram(f), t) for f, t in zip(fs, targets))
    return 1e4 * style_loss + F.mse_loss(fs[-1], content_f) + 0.1 * tv(image)


image = content.clone().requires_grad_()
opt = torch.optim.Adam([image], lr=0.02)
for it in range(30):
    loss = loss_fn(image)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        image.clamp_(0, 1)
print(loss.item())
