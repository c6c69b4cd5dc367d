"""Evolution strategies over a policy population evaluated with vmap."""

import os

import torch
import torch.nn.functional as F

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def policy(params, obs):
    h = torch.tanh(obs @ params["w1"] + params["b1"])
    return torch.tanh(h @ params["w2"])


def fitness(params, obs, goal):
    x = obs
    cost = 0.0
    for _ in range(5):
        a = policy(params, x)
        x = 0.9 * x + F.pad(a, (0, x.shape[-1] - a.shape[-1]))
        cost = cost + ((x - goal) ** 2).mean()
    return -cost


def es_step(params, obs, goal, population, sigma=0.1, lr=0.05):
    noise = {k: torch.randn(population // 2, *v.shape, device=v.device) for k, v in params.items()}
    noise = {k: torch.cat([v, -v]) for k, v in noise.items()}
    trial = {k: params[k] + sigma * v for k, v in noise.items()}
    score = torch.func.vmap(fitness, in_dims=(0, None, None))(trial, obs, goal)
    rank = score.argsort().argsort().float() / (population - 1) - 0.5
    update = {k: torch.einsum("p,p...->...", rank, v) / (population * sigma) for k, v in noise.items()}
    return {k: params[k] + lr * update[k] for k in params}, score.mean()


def build(device, compiled):
    torch.manual_seed(0)
    params = {
        "w1": torch.randn(16, 32, device=device) * 0.1,
        "b1": torch.zeros(32, device=device),
        "w2": torch.randn(32, 4, device=device) * 0.1,
    }
    obs, goal = torch.randn(32, 16, device=device), torch.zeros(16, device=device)
    population = pick(64, 6)
    state = [params]
    run = torch.compile(es_step, backend=BACKEND) if compiled else es_step

    def step():
        state[0], score = run(state[0], obs, goal, population)
        return score

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
