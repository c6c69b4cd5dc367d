"""Agent-based measles outbreak in a town with households, school classes and workplaces.

Everyone has a household, children have a class, adults have a workplace.  Daily steps; an outbreak
response (catch-up vaccination of children) starts once enough cases have been notified.
"""

import math

import torch
from torch import nn

S, E, I, R = 0, 1, 2, 3


class Town(nn.Module):
    def __init__(self, n_agents=400_000, coverage=0.78):
        super().__init__()
        household = self._groups(n_agents, mean_size=3)
        age = torch.randint(0, 80, (n_agents,))
        child = (age >= 5) & (age < 18)
        class_id = torch.randint(0, max(1, int(child.sum()) // 25), (n_agents,))
        work_id = torch.randint(0, n_agents // 18, (n_agents,))
        self.n_households = int(household.max()) + 1
        self.n_classes = int(class_id.max()) + 1
        self.n_works = int(work_id.max()) + 1
        self.register_buffer("household", household)
        self.register_buffer("class_id", class_id)
        self.register_buffer("work_id", work_id)
        self.register_buffer("child", child)
        self.register_buffer("adult", (age >= 18) & (age < 65))
        immune = torch.rand(n_agents) < torch.where(age < 18, coverage, 0.93)
        self.register_buffer("state", torch.where(immune, R, S))
        # infected at most once, so that the durations can be drawn beforehand
        latent = torch.distributions.Gamma(16.0, 1.6).sample((n_agents,)).round().clamp(min=3)
        infectious = torch.distributions.Gamma(8.0, 1.0).sample((n_agents,)).round().clamp(min=2)
        self.register_buffer("latent_days", latent)
        self.register_buffer("infectious_days", infectious)
        self.register_buffer("timer", torch.zeros(n_agents))
        self.register_buffer("shedding", torch.distributions.Gamma(0.8, 0.8).sample((n_agents,)))
        self.campaign = False

    @staticmethod
    def _groups(n, mean_size):
        starts = torch.rand(n) < 1.0 / mean_size
        return torch.cumsum(starts.long(), 0)

    def seed_cases(self, n):
        susceptible = torch.nonzero(self.state == S).squeeze(1)
        pick = susceptible[torch.randperm(len(susceptible))[:n]]
        self.state[pick] = I
        self.timer[pick] = self.infectious_days[pick]

    def pressure(self, load, ids, n_groups, member):
        load = load * member
        total = torch.zeros(n_groups).index_add(0, ids, load)
        return total[ids] * member

    def forward(self, season):
        load = self.shedding * (self.state == I)
        at_home = self.pressure(load, self.household, self.n_households, torch.ones_like(load))
        in_class = self.pressure(load, self.class_id, self.n_classes, self.child.float())
        at_work = self.pressure(load, self.work_id, self.n_works, self.adult.float())
        in_town = load.mean()

        hazard = 0.14 * at_home + season * (0.22 * in_class + 0.02 * at_work) + 0.35 * in_town
        p_infect = 1.0 - torch.exp(-hazard)
        draw = torch.rand_like(hazard)
        infected = (self.state == S) & (draw < p_infect)

        timer = (self.timer - 1.0).clamp(min=0.0)
        becomes_infectious = (self.state == E) & (timer <= 0)
        recovers = (self.state == I) & (timer <= 0)

        state = torch.where(infected, E, self.state)
        state = torch.where(becomes_infectious, I, state)
        state = torch.where(recovers, R, state)
        timer = torch.where(infected, self.latent_days, timer)
        timer = torch.where(becomes_infectious, self.infectious_days, timer)

        if self.campaign:
            reached = (torch.rand_like(hazard) < 0.03) & self.child & (state == S)
            state = torch.where(reached, R, state)

        self.state.copy_(state)
        self.timer.copy_(timer)
        counts = torch.stack([(state == k).sum() for k in (S, E, I, R)])
        return counts, infected.sum(), (infected & self.child).sum()


def run(seed, days=180, trigger=150):
    torch.manual_seed(seed)
    town = Town()
    town.seed_cases(12)
    town.compile()
    cases, child_cases, peak, started = 0, 0, (0, 0), None
    with torch.no_grad():
        for day in range(days):
            weekend = day % 7 >= 5
            season = (0.1 if weekend else 1.0) * (1.0 + 0.25 * math.cos(2 * math.pi * day / 365))
            counts, new, new_child = town(season)
            cases += new.item()
            child_cases += new_child.item()
            if counts[I] > peak[1]:
                peak = (day, counts[I].item())
            if not town.campaign and cases > trigger:
                town.campaign, started = True, day
    s, e, i, r = counts.tolist()
    print(
        f"town {seed}: cases {cases} (children {child_cases})  peak {peak[1]} on day {peak[0]}  "
        f"campaign from day {started}  left susceptible {s}, infectious {i}"
    )
    return cases


def main():
    sizes = [run(seed) for seed in range(2)]
    print("mean outbreak size", sum(sizes) / len(sizes))


if __name__ == "__main__":
    main()
