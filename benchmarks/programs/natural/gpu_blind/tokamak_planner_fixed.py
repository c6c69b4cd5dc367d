"""Model-based planning of coil voltages for plasma shape control.

An ensemble of learned dynamics models predicts the reaction of the plasma; candidate voltage sequences are
rolled out under the ensemble and refined by the cross-entropy method in each control period (receding horizon).
"""

import os
import time

import torch
import torch.nn as nn

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cpu" if SMOKE else "cuda"
OBS, ACT = 48, 12  # magnetic probes, flux loops and shape points; coils
HIDDEN = 32 if SMOKE else 256
MODELS = 2 if SMOKE else 5
CANDIDATES, ELITES = (16, 4) if SMOKE else (200, 20)
HORIZON = 4 if SMOKE else 30
CEM_ITERS = 2 if SMOKE else 3
PERIODS = 5 if SMOKE else 340


class EnsembleLinear(nn.Module):
    def __init__(self, n_in, n_out, gain=1.0):
        super().__init__()
        self.weight = nn.Parameter(gain * torch.randn(MODELS, n_in, n_out) / n_in**0.5)
        self.bias = nn.Parameter(torch.zeros(MODELS, 1, n_out))

    def forward(self, x):
        return torch.baddbmm(self.bias, x, self.weight)


class EnsembleDynamics(nn.Module):
    """Residual MLPs, one per ensemble member, evaluated as batched products."""

    def __init__(self):
        super().__init__()
        self.inp = EnsembleLinear(OBS + ACT, HIDDEN)
        self.mid = nn.ModuleList(EnsembleLinear(HIDDEN, HIDDEN) for _ in range(2))
        self.out = EnsembleLinear(HIDDEN, OBS, gain=0.5)
        self.norm = nn.LayerNorm(HIDDEN)

    def forward(self, state, action):
        h = nn.functional.silu(self.inp(torch.cat([state, action], -1)))
        for layer in self.mid:
            h = h + nn.functional.silu(layer(self.norm(h)))
        return 0.9 * state + 0.15 * torch.tanh(self.out(h))


class Critic(nn.Module):
    """Tail value at the end of the horizon."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(OBS, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, 1)
        )

    def forward(self, x):
        return self.net(x).squeeze(-1)


class Planner(nn.Module):
    def __init__(self):
        super().__init__()
        self.dynamics, self.critic = EnsembleDynamics(), Critic()
        self.register_buffer("shape_cost", torch.linspace(2.0, 0.2, OBS))
        self.register_buffer("limit", torch.full((ACT,), 1.0))

    @torch.compile(mode="reduce-overhead")
    def score(self, state, actions, target):
        """Return of each candidate: (C, H, A) sequences from one state, mean over the ensemble minus its spread."""
        s = state.expand(MODELS, actions.shape[0], OBS)
        total = torch.zeros(MODELS, actions.shape[0], device=state.device)
        prev = torch.zeros_like(actions[:, 0])
        for t in range(actions.shape[1]):
            a = actions[:, t]
            s = self.dynamics(s, a.expand(MODELS, -1, -1))
            track = (self.shape_cost * (s - target).square()).sum(-1)
            effort = 0.02 * a.square().sum(-1) + 0.1 * (a - prev).square().sum(-1)
            total = total - 0.99**t * (track + effort)
            prev = a
        total = total + 0.1 * self.critic(s)
        return total.mean(0) - 0.5 * total.std(0)

    @torch.no_grad()
    def plan(self, state, target, mean, gen):
        std = 0.4 * torch.ones_like(mean)
        for _ in range(CEM_ITERS):
            noise = torch.randn(CANDIDATES, HORIZON, ACT, device=DEV, generator=gen)
            cand = (mean + std * noise).clamp(-self.limit, self.limit)
            returns = self.score(state, cand, target)
            elite = cand[returns.topk(ELITES).indices]
            mean = 0.1 * mean + 0.9 * elite.mean(0)
            std = 0.1 * std + 0.9 * elite.std(0)
        return mean, returns.max()


class Plant:
    """The 'real' plasma: like one member, with process noise and a slow drift."""

    def __init__(self, dynamics, gen):
        self.dyn, self.gen = dynamics, gen
        self.state = 0.3 * torch.randn(OBS, device=DEV, generator=gen)

    @torch.no_grad()
    def step(self, action):
        s = self.state.expand(MODELS, 1, OBS)
        nxt = self.dyn(s, action.expand(MODELS, 1, ACT))[0, 0]
        self.state = nxt + 0.01 * torch.randn(OBS, device=DEV, generator=self.gen)
        return self.state


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    gen = torch.Generator(device=DEV).manual_seed(2)
    planner = Planner().to(DEV).eval()
    plant = Plant(planner.dynamics, gen)
    target = 0.2 * torch.sin(torch.linspace(0, 6.28, OBS, device=DEV))
    mean = torch.zeros(HORIZON, ACT, device=DEV)
    print(
        f"{sum(p.numel() for p in planner.parameters()):,} parameters, {MODELS} models, {CANDIDATES} candidates"
    )

    state, errors = plant.state, []
    start = time.perf_counter()
    for k in range(PERIODS):
        mean, best = planner.plan(state, target, mean, gen)
        state = plant.step(mean[0])
        errors.append((state - target).square().mean())
        mean = torch.cat([mean[1:], torch.zeros_like(mean[:1])])
        if (k + 1) % max(1, PERIODS // 6) == 0:
            err = torch.stack(errors[-max(1, PERIODS // 6) :]).mean().sqrt().item()
            print(
                f"period {k + 1:4d}  return {best.item():9.3f}  shape rms {err:.4f}"
                f"  {1e3 * (time.perf_counter() - start) / (k + 1):.2f} ms per period"
            )
    assert torch.isfinite(state).all()


if __name__ == "__main__":
    main()
