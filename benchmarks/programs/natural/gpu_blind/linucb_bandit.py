"""LinUCB contextual bandit, many replicates of the experiment simulated in parallel."""

import os
import time

import torch

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1"))


class Environment:
    """Linear rewards with Gaussian noise, one hidden weight matrix per replicate."""

    def __init__(self, replicates, arms, dim, device):
        self.weights = torch.randn(replicates, arms, dim, device=device)
        self.weights /= self.weights.norm(dim=-1, keepdim=True)
        self.replicates, self.dim, self.device = replicates, dim, device

    def contexts(self, rounds):
        x = torch.randn(rounds, self.replicates, self.dim, device=self.device)
        return x / x.norm(dim=-1, keepdim=True)

    def noise(self, rounds):
        return 0.1 * torch.randn(rounds, self.replicates, device=self.device)


class LinUCB:
    """Disjoint LinUCB (Li et al., 2010) with Sherman-Morrison updates."""

    def __init__(self, replicates, arms, dim, device, ridge=1.0):
        eye = torch.eye(dim, device=device) / ridge
        self.A_inv = eye.expand(replicates, arms, dim, dim).clone()
        self.b = torch.zeros(replicates, arms, dim, device=device)
        self.theta = torch.zeros(replicates, arms, dim, device=device)
        self.pulls = torch.zeros(replicates, arms, device=device)
        self.rows = torch.arange(replicates, device=device)
        self.alphas = torch.linspace(0.05, 1.5, replicates, device=device)

    def select(self, x):
        mean = torch.einsum("rkd,rd->rk", self.theta, x)
        Ax = torch.einsum("rkde,re->rkd", self.A_inv, x)
        var = torch.einsum("rkd,rd->rk", Ax, x).clamp_min(0)
        ucb = mean + self.alphas[:, None] * var.sqrt()
        return ucb.argmax(1), Ax

    def update(self, arm, x, Ax, reward):
        r = self.rows
        u = Ax[r, arm]
        denom = 1.0 + (u * x).sum(1)
        A_new = self.A_inv[r, arm] - u[:, :, None] * u[:, None, :] / denom[:, None, None]
        b_new = self.b[r, arm] + reward[:, None] * x
        self.A_inv[r, arm] = A_new
        self.b[r, arm] = b_new
        self.theta[r, arm] = torch.einsum("rde,re->rd", A_new, b_new)
        self.pulls[r, arm] += 1

    def play(self, x, weights, noise):
        arm, Ax = self.select(x)
        expected = torch.einsum("rkd,rd->rk", weights, x)
        chosen = expected[self.rows, arm]
        self.update(arm, x, Ax, chosen + noise)
        return expected.amax(1) - chosen


def main():
    torch.manual_seed(0)
    replicates = max(4, int(64 * SCALE))
    arms, dim, rounds = 16, 32, 100
    warmup, iters = 3, 40
    if SCALE < 1:
        iters = 4

    env = Environment(replicates, arms, dim, DEVICE)
    agent = LinUCB(replicates, arms, dim, DEVICE)
    play = torch.compile(agent.play, mode="reduce-overhead")

    regret = torch.zeros(replicates, device=DEVICE)
    history = []

    def run_block():
        contexts = env.contexts(rounds)
        noise = env.noise(rounds)
        block = torch.zeros(replicates, device=DEVICE)
        for t in range(rounds):
            block += play(contexts[t], env.weights, noise[t])
        regret.add_(block)
        history.append(block.mean() / rounds)

    with torch.no_grad():
        for _ in range(warmup):
            run_block()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(iters):
            run_block()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        elapsed = time.perf_counter() - start

    history = torch.stack(history)
    best = regret.argmin()
    print(f"regret/round first {history[0].item():.4f} last {history[-1].item():.4f}")
    print(f"best alpha {agent.alphas[best].item():.3f} total regret {regret[best].item():.2f}")
    print(f"pulls checksum {agent.pulls.sum().item():.0f}")
    print(f"{1000 * elapsed / iters:.2f} ms per {rounds} rounds")


if __name__ == "__main__":
    main()
