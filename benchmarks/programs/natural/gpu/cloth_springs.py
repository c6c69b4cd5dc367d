"""Mass-spring cloth: forces gathered on edges, scattered to vertices, several substeps."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def forces(pos, vel, a, b, rest, stiffness=500.0, damping=0.2):
    d = pos[b] - pos[a]
    length = d.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    direction = d / length
    rel = ((vel[b] - vel[a]) * direction).sum(-1, keepdim=True)
    f = (stiffness * (length - rest) + damping * rel) * direction
    total = torch.zeros_like(pos)
    total.index_add_(0, a, f)
    total.index_add_(0, b, -f)
    total[:, 1] -= 9.81 * 0.01
    return total


def simulate(pos, vel, a, b, rest, pinned, dt=1e-3, substeps=4):
    for _ in range(substeps):
        acc = forces(pos, vel, a, b, rest) / 0.01
        vel = (vel + dt * acc) * 0.999
        vel = torch.where(pinned[:, None], torch.zeros_like(vel), vel)
        pos = pos + dt * vel
        below = pos[:, 1] < -2.0
        pos[:, 1] = pos[:, 1].clamp(min=-2.0)
        vel = torch.where(below[:, None], -0.5 * vel, vel)
    return pos, vel


def build(device, compiled):
    torch.manual_seed(0)
    n = pick(512, 8)
    index = torch.arange(n * n, device=device).view(n, n)
    pairs = [(index[:, :-1], index[:, 1:]), (index[:-1], index[1:]), (index[:-1, :-1], index[1:, 1:])]
    a = torch.cat([p.flatten() for p, _ in pairs])
    b = torch.cat([q.flatten() for _, q in pairs])
    y, x = torch.meshgrid(torch.arange(n, device=device), torch.arange(n, device=device), indexing="ij")
    pos = torch.stack([x, torch.zeros_like(x), y], -1).view(-1, 3).float() * 0.01
    rest = (pos[b] - pos[a]).norm(dim=-1, keepdim=True)
    pinned = (y == 0).flatten()
    state = [pos, torch.zeros_like(pos)]
    run = torch.compile(simulate, backend=BACKEND) if compiled else simulate

    def step():
        state[:] = run(*state, a, b, rest, pinned)
        return state[0]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
