"""Cascaded biquad equaliser filtering block by block with carried state."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def biquad_cascade(x, coeffs, state):
    out = []
    for n in range(x.shape[1]):
        s = x[:, n]
        new = []
        for k in range(coeffs.shape[0]):
            b0, b1, b2, a1, a2 = coeffs[k].unbind()
            z1, z2 = state[k]
            y = b0 * s + z1
            new.append(torch.stack([b1 * s - a1 * y + z2, b2 * s - a2 * y]))
            s = y
        state = torch.stack(new)
        out.append(s)
    return torch.stack(out, 1), state


def build(device, compiled):
    torch.manual_seed(0)
    channels, block, stages = pick(512, 4), pick(24, 4), 3
    x = torch.randn(channels, block, device=device)
    coeffs = torch.tensor([[0.9, -1.6, 0.75, -1.6, 0.65]], device=device).repeat(stages, 1)
    state = [torch.zeros(stages, 2, channels, device=device)]
    run = torch.compile(biquad_cascade, backend=BACKEND) if compiled else biquad_cascade

    def step():
        y, state[0] = run(x, coeffs, state[0])
        return y

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
