"""Many linear programs at once with the primal-dual hybrid gradient method (PDLP style).

Each instance is a product blending problem with its own matrix:
    minimise c.x   subject to  A x >= b,  0 <= x <= u
The batch is solved together: blocks of PDHG iterations, then residuals, restarts from the average
and a new primal weight, until all instances have converged or the budget is spent.
"""

import torch

torch.manual_seed(11)
device = "cuda"

INSTANCES, ROWS, COLS = 384, 512, 1024
INNER = 20
MAX_BLOCKS = 320
TOL = 1e-4


def make_instances():
    a = torch.rand(INSTANCES, ROWS, COLS, device=device)
    a = a * (torch.rand(INSTANCES, ROWS, COLS, device=device) < 0.15)
    c = 0.5 + torch.rand(INSTANCES, COLS, device=device)
    u = 1.0 + 2.0 * torch.rand(INSTANCES, COLS, device=device)
    feasible = 0.4 * u * torch.rand(INSTANCES, COLS, device=device)
    b = torch.bmm(a, feasible.unsqueeze(-1)).squeeze(-1)
    # scale the rows to norm one
    scale = a.norm(dim=2).clamp(min=1e-6)
    return a / scale[..., None], b / scale, c, u


def spectral_norm(a, iterations=30):
    v = torch.randn(a.shape[0], a.shape[2], 1, device=a.device)
    for _ in range(iterations):
        v = torch.bmm(a.transpose(1, 2), torch.bmm(a, v))
        v = v / v.norm(dim=1, keepdim=True)
    return torch.bmm(a, v).norm(dim=1)


class BatchedPDHG:
    def __init__(self, a, b, c, u):
        self.a, self.b, self.c, self.u = a, b, c, u
        self.norm = spectral_norm(a)
        self.weight = torch.full_like(self.norm, 1.0)
        self.x = torch.zeros_like(c)
        self.y = torch.zeros_like(b)
        self.block = torch.compile(self._block)

    def _block(self, x, y, weight):
        tau = 0.95 / (self.norm * weight)
        sigma = 0.95 * weight / self.norm
        x_sum = torch.zeros_like(x)
        y_sum = torch.zeros_like(y)
        for _ in range(INNER):
            aty = torch.bmm(self.a.transpose(1, 2), y.unsqueeze(-1)).squeeze(-1)
            x_new = torch.clamp(x - tau * (self.c - aty), min=torch.zeros_like(x), max=self.u)
            ax = torch.bmm(self.a, (2.0 * x_new - x).unsqueeze(-1)).squeeze(-1)
            y = torch.relu(y + sigma * (self.b - ax))
            x = x_new
            x_sum = x_sum + x
            y_sum = y_sum + y
        return x, y, x_sum / INNER, y_sum / INNER

    def errors(self, x, y):
        ax = torch.bmm(self.a, x.unsqueeze(-1)).squeeze(-1)
        aty = torch.bmm(self.a.transpose(1, 2), y.unsqueeze(-1)).squeeze(-1)
        primal = torch.relu(self.b - ax).norm(dim=1) / (1 + self.b.norm(dim=1))
        reduced = self.c - aty
        objective = (self.c * x).sum(1)
        dual = (self.b * y).sum(1) + (self.u * reduced.clamp(max=0.0)).sum(1)
        gap = (objective - dual).abs() / (1 + objective.abs() + dual.abs())
        return primal, gap, objective

    def solve(self):
        for block in range(MAX_BLOCKS):
            x_old, y_old = self.x, self.y
            x, y, x_mean, y_mean = self.block(self.x, self.y, self.weight)
            p_last, g_last, _ = self.errors(x, y)
            p_mean, g_mean, _ = self.errors(x_mean, y_mean)
            better = (torch.maximum(p_mean, g_mean) < torch.maximum(p_last, g_last))[:, None]
            self.x = torch.where(better, x_mean, x)
            self.y = torch.where(better, y_mean, y)
            if block % 8 == 7:
                dx = (self.x - x_old).norm(dim=1, keepdim=True).clamp(min=1e-8)
                dy = (self.y - y_old).norm(dim=1, keepdim=True).clamp(min=1e-8)
                target = torch.clamp(dy / dx, 1e-2, 1e2)
                self.weight = torch.exp(0.5 * target.log() + 0.5 * self.weight.log())
            if block % 20 == 19:
                primal, gap, objective = self.errors(self.x, self.y)
                done = (primal < TOL) & (gap < TOL)
                print(
                    f"block {block + 1:3d}: solved {int(done.sum())}/{INSTANCES}, worst primal "
                    f"{primal.max().item():.2e}, worst gap {gap.max().item():.2e}"
                )
                if done.all():
                    break
        return self.x, self.y


def main():
    a, b, c, u = make_instances()
    solver = BatchedPDHG(a, b, c, u)
    x, y = solver.solve()
    primal, gap, objective = solver.errors(x, y)
    print(
        f"mean objective {objective.mean().item():.4f}, active bounds "
        f"{((x <= 0) | (x >= u)).float().mean().item():.3f}, binding rows {(y > 1e-5).float().mean().item():.3f}"
    )


if __name__ == "__main__":
    main()
