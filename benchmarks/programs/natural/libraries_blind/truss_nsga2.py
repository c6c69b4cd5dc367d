"""Bi-objective sizing of a steel footbridge truss (mass vs. mid-span deflection) with EvoX NSGA-II.

Pratt truss, pin-jointed, three load cases.  Every candidate is a vector of member areas; all
candidates of a generation are analysed in one batched direct-stiffness solve.
"""

import time

import torch
from evox.algorithms import NSGA2
from evox.core import Problem
from evox.workflows import StdWorkflow

torch.manual_seed(7)
torch.set_default_dtype(torch.float32)

E_MOD = 210e9
RHO = 7850.0
SIGMA_MAX = 235e6
BAYS, SPAN, HEIGHT = 14, 42.0, 3.2
POP, GENERATIONS = 400, 120


def pratt_truss(bays, span, height):
    dx = span / bays
    bottom = torch.stack([torch.arange(bays + 1) * dx, torch.zeros(bays + 1)], 1)
    top = torch.stack([torch.arange(1, bays) * dx, torch.full((bays - 1,), height)], 1)
    nodes = torch.cat([bottom, top])
    t = lambda i: bays + i  # top node above bottom node i (1 <= i < bays)
    bars = [(i, i + 1) for i in range(bays)]
    bars += [(t(i), t(i + 1)) for i in range(1, bays - 1)]
    bars += [(i, t(i)) for i in range(1, bays)]
    bars += [(0, t(1)), (bays, t(bays - 1))]
    for i in range(1, bays - 1):
        bars.append((t(i), i + 1) if i < bays // 2 else (i, t(i + 1)))
    return nodes, torch.tensor(bars)


class TrussSizing(Problem):
    def __init__(self, groups=None):
        super().__init__()
        nodes, bars = pratt_truss(BAYS, SPAN, HEIGHT)
        d = nodes[bars[:, 1]] - nodes[bars[:, 0]]
        length = d.norm(dim=1)
        c = d / length[:, None]
        n_bar, n_dof = len(bars), 2 * len(nodes)
        # compatibility matrix: elongation = B u
        B = torch.zeros(n_bar, n_dof)
        rows = torch.arange(n_bar)
        for a in range(2):
            B[rows, 2 * bars[:, 0] + a] = -c[:, a]
            B[rows, 2 * bars[:, 1] + a] = c[:, a]
        fixed = {0, 1, 2 * BAYS + 1}
        free = torch.tensor([i for i in range(n_dof) if i not in fixed])
        loads = torch.zeros(3, n_dof)
        deck = 2 * torch.arange(1, BAYS) + 1
        loads[0, deck] = -15e3 * SPAN / BAYS  # crowd on the full deck
        loads[1, deck[: len(deck) // 2]] = -15e3 * SPAN / BAYS  # half deck
        loads[2, deck[len(deck) // 2]] = -120e3  # service vehicle
        self.register_buffer("B", B[:, free].contiguous())
        self.register_buffer("length", length)
        self.register_buffer("load", loads[:, free].T.contiguous())
        self.n_bar = n_bar

    def evaluate(self, pop):
        area = pop * 1e-4  # cm^2 -> m^2
        mass = RHO * (area * self.length).sum(1)
        stiff = E_MOD * area / self.length  # (P, bars)
        K = torch.einsum("bi,pb,bj->pij", self.B, stiff, self.B)
        u = torch.linalg.solve(K, self.load.expand(len(pop), -1, -1))
        strain = torch.einsum("bi,pil->pbl", self.B, u) / self.length[:, None]
        stress = E_MOD * strain
        # Euler buckling of square hollow sections, i^2 ~ 0.4 A
        sigma_cr = 9.87 * E_MOD * 0.4 * area / self.length**2
        over = torch.relu(stress.abs() / SIGMA_MAX - 1)
        buckle = torch.relu(-stress / sigma_cr[..., None] - 1)
        violation = over.sum((1, 2)) + buckle.sum((1, 2))
        deflection = u.abs().amax((1, 2))
        return torch.stack([mass * (1 + violation), deflection * 1e3 * (1 + violation)], 1)


def hypervolume_2d(fit, ref):
    f = fit[(fit < ref).all(1)]
    if len(f) == 0:
        return 0.0
    f = f[f[:, 0].argsort()]
    best = torch.cummin(f[:, 1], 0).values
    right = torch.cat([f[1:, 0], ref[:1]])
    return ((right - f[:, 0]) * (ref[1] - best)).sum().item()


def main():
    problem = TrussSizing()
    lb = torch.full((problem.n_bar,), 5.0)
    ub = torch.full((problem.n_bar,), 250.0)
    algo = NSGA2(pop_size=POP, n_objs=2, lb=lb, ub=ub)
    workflow = StdWorkflow(algo, problem)

    workflow.init_step()
    step = torch.compile(workflow.step)
    ref = torch.tensor([3.0e4, 400.0])
    t0 = time.perf_counter()
    for gen in range(1, GENERATIONS + 1):
        step()
        if gen % 20 == 0:
            fit = workflow.algorithm.fit
            dt = (time.perf_counter() - t0) / 20
            print(
                f"gen {gen:4d}  hv {hypervolume_2d(fit, ref):.4e}  lightest {fit[:, 0].min():8.0f} kg"
                f"  stiffest {fit[:, 1].min():6.1f} mm  {dt * 1e3:.1f} ms/gen"
            )
            t0 = time.perf_counter()
    fit, pop = workflow.algorithm.fit, workflow.algorithm.pop
    knee = ((fit - fit.amin(0)) / (fit.amax(0) - fit.amin(0) + 1e-9)).norm(dim=1).argmin()
    print(
        "knee design:",
        [round(v, 1) for v in fit[knee].tolist()],
        "mean area",
        round(pop[knee].mean().item(), 1),
        "cm2",
    )


if __name__ == "__main__":
    main()
