"""Bootstrap particle filter with systematic resampling."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def filter_step(particles, weights, observation, landmarks):
    n = particles.shape[1]
    heading = particles[..., 2]
    move = torch.stack([torch.cos(heading), torch.sin(heading), torch.full_like(heading, 0.05)], -1) * 0.1
    particles = particles + move + 0.02 * torch.randn_like(particles)
    d = (particles[:, :, None, :2] - landmarks).norm(dim=-1)
    logw = weights.log() - 0.5 * ((d - observation[:, None]) / 0.3).square().sum(-1)
    weights = torch.softmax(logw, 1)
    estimate = (weights[..., None] * particles).sum(1)
    ess = 1 / weights.square().sum(1)
    u = (
        torch.arange(n, device=particles.device) + torch.rand(particles.shape[0], 1, device=particles.device)
    ) / n
    index = torch.searchsorted(weights.cumsum(1), u).clamp(max=n - 1)
    fresh = particles.gather(1, index[..., None].expand_as(particles))
    resample = (ess < n / 2)[:, None]
    particles = torch.where(resample[..., None], fresh, particles)
    weights = torch.where(resample, torch.full_like(weights, 1 / n), weights)
    return particles, weights, estimate


def build(device, compiled):
    torch.manual_seed(0)
    robots, n = pick(16, 2), pick(2000, 16)
    landmarks = torch.randn(8, 2, device=device) * 5
    state = [torch.randn(robots, n, 3, device=device), torch.full((robots, n), 1 / n, device=device)]
    observation = torch.rand(robots, 8, device=device) * 5
    run = torch.compile(filter_step, backend=BACKEND) if compiled else filter_step

    def step():
        particles, weights, estimate = run(*state, observation, landmarks)
        state[:] = [particles, weights]
        return estimate

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
