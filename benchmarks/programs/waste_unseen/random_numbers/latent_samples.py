"""A variational encoder's latents, drawn by the reparametrisation trick."""

import torch

torch.manual_seed(0)
TWIN_CONFIG = {"fallback_random": True}


def inputs():
    return (torch.randn(64, 16, 64, 64),)


def step(moments):
    mean, log_variance = moments.chunk(2, 1)
    log_variance = log_variance.clamp(-30, 20)
    sample = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
    return sample * 0.18215


twin = step


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
