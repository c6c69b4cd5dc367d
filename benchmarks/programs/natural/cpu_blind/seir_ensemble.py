"""Stochastic metapopulation SEIHRD ensemble for influenza planning.

Chain-binomial transitions, daily steps with a substep of half a day, gravity
mobility between counties, one transmission rate per ensemble member.
Reports the hospital census quantiles of three intervention scenarios.
"""

import time

import torch

COUNTIES, MEMBERS, DAYS, SUBSTEPS = 120, 300, 150, 2
S, E, I, H, R, D = range(6)
SCENARIOS = {
    "baseline": dict(start=999, cut=0.0, vacc=0.0),
    "closure": dict(start=45, cut=0.45, vacc=0.0),
    "vaccine": dict(start=30, cut=0.10, vacc=0.004),
}


def gravity(xy, pop, alpha=0.9, scale=60.0, leave=0.12):
    d = torch.cdist(xy, xy)
    w = pop.pow(alpha) * torch.exp(-d / scale)
    w.fill_diagonal_(0.0)
    w = w / w.sum(1, keepdim=True)
    return (1 - leave) * torch.eye(len(pop)) + leave * w


def binom(n, p):
    return torch.binomial(n, p.expand_as(n))


class Epidemic:
    def __init__(self, gen):
        xy = 300 * torch.rand(COUNTIES, 2, generator=gen)
        self.pop = torch.exp(10.5 + 1.0 * torch.randn(COUNTIES, generator=gen)).round()
        self.mixing = gravity(xy, self.pop)
        self.season = 0.15
        self.dt = 1.0 / SUBSTEPS
        self.p_ei = torch.tensor(1 - 2.718281828 ** (-self.dt / 1.6))
        self.p_out = torch.tensor(1 - 2.718281828 ** (-self.dt / 3.2))
        self.p_disch = torch.tensor(1 - 2.718281828 ** (-self.dt / 6.5))
        self.severity = 0.012 * torch.exp(0.3 * torch.randn(COUNTIES, generator=gen))
        self.fatality = torch.tensor(0.09)
        self.step = torch.compile(self._step, mode="reduce-overhead")

    def initial(self):
        state = torch.zeros(6, MEMBERS, COUNTIES)
        state[S] = self.pop
        seeds = self.pop.topk(3).indices
        state[E][:, seeds] = 25.0
        state[S] -= state[E]
        return state

    def _step(self, state, beta, contact, vacc):
        s, e, i, h, r, d = state.unbind(0)
        living = self.pop - d
        prevalence = (i @ self.mixing) / (living @ self.mixing)
        force = (beta * contact)[:, None] * (prevalence @ self.mixing.T)
        new_e = binom(s, 1 - torch.exp(-force * self.dt))
        new_i = binom(e, self.p_ei)
        leave_i = binom(i, self.p_out)
        new_h = binom(leave_i, self.severity)
        leave_h = binom(h, self.p_disch)
        new_d = binom(leave_h, self.fatality)
        new_v = binom(s - new_e, vacc * self.dt)
        state = torch.stack(
            [
                s - new_e - new_v,
                e + new_e - new_i,
                i + new_i - leave_i,
                h + new_h - leave_h,
                r + (leave_i - new_h) + (leave_h - new_d) + new_v,
                d + new_d,
            ]
        )
        return state, new_e.sum(1), new_h.sum(1), state[H].sum(1)

    def run(self, beta, start, cut, vacc):
        state = self.initial()
        census, infections = [], torch.zeros(MEMBERS)
        admissions = torch.zeros(MEMBERS)
        for day in range(DAYS):
            angle = torch.tensor(2 * 3.14159265 * (day - 20) / 365)
            contact = 1 + self.season * torch.cos(angle)
            if day >= start:
                contact = contact * (1 - cut)
            rate = torch.tensor(vacc if day >= start else 0.0)
            for _ in range(SUBSTEPS):
                state, new_e, new_h, in_hospital = self.step(state, beta, contact, rate)
                infections = infections + new_e
                admissions = admissions + new_h
            census.append(in_hospital)
        return torch.stack(census), infections, admissions, state


def main():
    torch.manual_seed(77)
    gen = torch.Generator().manual_seed(77)
    epi = Epidemic(gen)
    beta = (1.35 + 0.12 * torch.randn(MEMBERS, generator=gen)) / 3.2
    total_pop = epi.pop.sum().item()
    print(f"{COUNTIES} counties, {total_pop / 1e6:.2f} M people, {MEMBERS} members")
    with torch.inference_mode():
        for name, scenario in SCENARIOS.items():
            t0 = time.perf_counter()
            census, infections, admissions, state = epi.run(beta, **scenario)
            dt = time.perf_counter() - t0
            assert torch.allclose(state.sum(0), epi.pop.expand(MEMBERS, -1))
            lo, mid, hi = torch.quantile(census.max(0).values, torch.tensor([0.05, 0.5, 0.95])).tolist()
            attack = (infections / total_pop).median().item()
            print(
                f"{name:9s} attack rate {100 * attack:5.1f}%  peak census {mid:8.0f} [{lo:.0f}, {hi:.0f}]  "
                f"admissions {admissions.median().item():9.0f}  deaths {state[D].sum(1).median().item():7.0f}  "
                f"{1e3 * dt / (DAYS * SUBSTEPS):.1f} ms/substep"
            )


if __name__ == "__main__":
    main()
