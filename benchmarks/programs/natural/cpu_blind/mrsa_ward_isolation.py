"""Monte Carlo comparison of MRSA screening and isolation policies in a hospital unit.

Every replicate is a unit of 40 beds in five nurse cohorts. Day by day patients leave and are replaced, some arriving
colonised; transmission depends on the colonised patients of the same cohort (full weight) and of the unit (small
weight). Swabs are taken on admission and/or weekly, results arrive after a delay, positives are moved into the
isolation rooms while there are any, and decolonisation is started. Acquisitions and isolation days are counted.
"""

from dataclasses import dataclass

import torch

torch.manual_seed(2)

REPS = 3000
BEDS = 40
COHORTS = 5
DAYS = 200
WARMUP = 30


@dataclass
class Policy:
    name: str
    admission_swab: bool
    weekly_swab: bool
    delay: int
    rooms: int
    decolonise: bool


POLICIES = [
    Policy("none", False, False, 2, 0, False),
    Policy("admission, culture", True, False, 2, 6, False),
    Policy("admission + weekly, culture", True, True, 2, 6, True),
    Policy("admission + weekly, PCR", True, True, 1, 6, True),
]

BETA_COHORT = 0.011
BETA_UNIT = 0.0006
PREV_ADMISSION = 0.05
SENSITIVITY = 0.85
SPECIFICITY = 0.985
MEAN_STAY = 6.5
LONG_STAY = 20.0
ISOLATION_EFFECT = 0.3
LOSS = 1 / 370.0
DECOLONISE_RATE = 0.12


def new_state():
    return {
        "colonised": torch.rand(REPS, BEDS) < PREV_ADMISSION,
        "long": torch.rand(REPS, BEDS) < 0.2,
        "known": torch.zeros(REPS, BEDS, dtype=torch.bool),
        "isolated": torch.zeros(REPS, BEDS, dtype=torch.bool),
        "pending": torch.full((REPS, BEDS), -1, dtype=torch.long),  # days until the result
        "pending_result": torch.zeros(REPS, BEDS, dtype=torch.bool),
        "since": torch.zeros(REPS, BEDS, dtype=torch.long),
        "acquired": torch.zeros(REPS, dtype=torch.long),
        "iso_days": torch.zeros(REPS, dtype=torch.long),
        "patient_days": 0,
    }


def swab(colonised):
    u = torch.rand(colonised.shape)
    return torch.where(colonised, u < SENSITIVITY, u > SPECIFICITY)


def day(state, weekday, counting, policy):
    col = state["colonised"]
    iso = state["isolated"]

    # discharge and admission
    p_leave = torch.where(state["long"], 1 / LONG_STAY, 1 / MEAN_STAY)
    leave = torch.rand(REPS, BEDS) < p_leave
    col = torch.where(leave, torch.rand(REPS, BEDS) < PREV_ADMISSION, col)
    long = torch.where(leave, torch.rand(REPS, BEDS) < 0.2, state["long"])
    known = state["known"] & ~leave
    iso = iso & ~leave
    pending = state["pending"].masked_fill(leave, -1)
    result = state["pending_result"]
    since = torch.where(leave, 0, state["since"] + 1)

    # transmission
    weight = col.float() * torch.where(iso, ISOLATION_EFFECT, 1.0)
    cohort = weight.view(REPS, COHORTS, -1).sum(2)
    pressure = BETA_COHORT * cohort.repeat_interleave(BEDS // COHORTS, 1) + BETA_UNIT * weight.sum(
        1, keepdim=True
    )
    pressure = pressure * torch.where(iso, ISOLATION_EFFECT, 1.0)
    infect = (torch.rand(REPS, BEDS) < 1 - torch.exp(-pressure)) & ~col
    col = col | infect
    col = col & ~(torch.rand(REPS, BEDS) < LOSS)
    if policy.decolonise:
        col = col & ~(known & (torch.rand(REPS, BEDS) < DECOLONISE_RATE))

    # swabs and results
    take = torch.zeros_like(col)
    if policy.admission_swab:
        take = take | leave
    if policy.weekly_swab and weekday == 0:
        take = take | (~known & (pending < 0))
    result = torch.where(take, swab(col), result)
    pending = torch.where(take, policy.delay, pending - 1)
    known = known | ((pending == 0) & result)

    # isolation rooms, longest known first
    if policy.rooms > 0:
        priority = torch.where(known, since + 1000 * iso.long(), -1)
        order = torch.argsort(priority, dim=1, descending=True)
        rank = torch.empty_like(order)
        rank.scatter_(1, order, torch.arange(BEDS).expand(REPS, BEDS))
        iso = known & (rank < policy.rooms)

    acquired = state["acquired"]
    iso_days = state["iso_days"]
    patient_days = state["patient_days"]
    if counting:
        acquired = acquired + infect.sum(1)
        iso_days = iso_days + iso.sum(1)
        patient_days = patient_days + REPS * BEDS
    return {
        "colonised": col,
        "long": long,
        "known": known,
        "isolated": iso,
        "pending": pending,
        "pending_result": result,
        "since": since,
        "acquired": acquired,
        "iso_days": iso_days,
        "patient_days": patient_days,
    }


day_compiled = torch.compile(day)


def run_policy(policy):
    state = new_state()
    prevalence = []
    for d in range(DAYS):
        state = day_compiled(state, d % 7, d >= WARMUP, policy)
        prevalence.append(state["colonised"].float().mean().item())
    return state, prevalence


def main():
    print(f"{REPS} replicates of {BEDS} beds, {DAYS} days")
    for policy in POLICIES:
        state, prev = run_policy(policy)
        per = 1000 * state["acquired"].double() / (state["patient_days"] / REPS)
        lo, hi = torch.quantile(per, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
        print(
            f"{policy.name:30s} {per.mean():6.2f} acquisitions / 1000 bed-days [{lo:.2f}, {hi:.2f}]  "
            f"isolation days {state['iso_days'].float().mean():7.1f}  prevalence {sum(prev[-30:]) / 30:.3f}"
        )


if __name__ == "__main__":
    main()
