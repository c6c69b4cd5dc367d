"""Distributional RL (C51 with noisy, dueling, double-Q) for a lift dispatcher in a 10-floor building.

64 buildings are simulated side by side.  Each decision: up, down or open the doors.  Reward is minus
the people waiting or riding, plus a bonus per delivered passenger.  Prioritised replay in numpy.
"""

import copy
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

FLOORS, LANES, ATOMS, V_MIN, V_MAX = 10, 64, 51, -15.0, 15.0
GAMMA, N_STEP = 0.97, 3
OBS = FLOORS * 3 + 1
ACTIONS = 3


class LiftLanes:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.floor = self.rng.integers(0, FLOORS, LANES)
        self.wait = np.zeros((LANES, FLOORS), np.float32)
        self.ride = np.zeros((LANES, FLOORS), np.float32)
        self.clock = self.rng.integers(0, 200, LANES)

    def obs(self):
        here = np.eye(FLOORS, dtype=np.float32)[self.floor]
        t = (self.clock / 200).astype(np.float32)[:, None]
        return np.concatenate([here, self.wait / 4, self.ride / 4, t], 1)

    def step(self, act):
        lane = np.arange(LANES)
        self.floor = np.clip(self.floor + (act == 0) - (act == 1), 0, FLOORS - 1)
        opened = act == 2
        out = np.where(opened, self.ride[lane, self.floor], 0)
        self.ride[lane, self.floor] -= out
        entering = np.where(opened, np.minimum(self.wait[lane, self.floor], 8 - self.ride.sum(1)), 0)
        self.wait[lane, self.floor] -= entering
        for l in np.flatnonzero(entering):
            goal = self.rng.integers(0, FLOORS - 1, int(entering[l]))
            np.add.at(self.ride[l], goal + (goal >= self.floor[l]), 1)
        arrive = self.rng.random((LANES, FLOORS)) < 0.02
        arrive[:, 0] |= self.rng.random(LANES) < 0.06
        self.wait = np.minimum(self.wait + arrive, 6)
        reward = out - 0.02 * (self.wait.sum(1) + self.ride.sum(1))
        self.clock += 1
        done = self.clock >= 200
        self.wait[done] = 0
        self.ride[done] = 0
        self.clock[done] = 0
        return self.obs(), reward.astype(np.float32), done, out.sum()


class PrioritisedReplay:
    def __init__(self, size, alpha=0.6, seed=0):
        self.rng = np.random.default_rng(seed)
        self.size, self.alpha, self.n, self.head = size, alpha, 0, 0
        self.o, self.o2 = np.zeros((size, OBS), np.float32), np.zeros((size, OBS), np.float32)
        self.a, self.r = np.zeros(size, np.int64), np.zeros(size, np.float32)
        self.d, self.p = np.zeros(size, np.float32), np.zeros(size, np.float64)
        self.top = 1.0

    def add(self, o, a, r, o2, d):
        at = (self.head + np.arange(len(a))) % self.size
        self.o[at], self.a[at], self.r[at], self.o2[at], self.d[at] = o, a, r, o2, d
        self.p[at] = self.top
        self.head = (self.head + len(a)) % self.size
        self.n = min(self.n + len(a), self.size)

    def sample(self, k, beta):
        cum = np.cumsum(self.p[: self.n])
        at = np.searchsorted(cum, (np.arange(k) + self.rng.random(k)) * cum[-1] / k).clip(0, self.n - 1)
        w = (self.n * self.p[at] / cum[-1]) ** -beta
        cols = (self.o[at], self.a[at], self.r[at], self.o2[at], self.d[at], (w / w.max()).astype(np.float32))
        return at, [torch.from_numpy(c) for c in cols]

    def update(self, at, err):
        self.p[at] = (np.abs(err) + 1e-4) ** self.alpha
        self.top = max(self.top, self.p[at].max())


class NoisyLinear(nn.Module):
    def __init__(self, i, o, sigma=0.4):
        super().__init__()
        b = 1 / math.sqrt(i)
        self.w, self.b = (
            nn.Parameter(torch.empty(o, i).uniform_(-b, b)),
            nn.Parameter(torch.empty(o).uniform_(-b, b)),
        )
        self.ws, self.bs = (
            nn.Parameter(torch.full((o, i), sigma * b)),
            nn.Parameter(torch.full((o,), sigma * b)),
        )

    def forward(self, x):
        ein, eout = torch.randn(self.w.shape[1]), torch.randn(self.w.shape[0])
        ein, eout = ein.sign() * ein.abs().sqrt(), eout.sign() * eout.abs().sqrt()
        return F.linear(x, self.w + self.ws * torch.outer(eout, ein), self.b + self.bs * eout)


class Dispatcher(nn.Module):
    def __init__(self, hid=256):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(OBS, hid), nn.ReLU(), nn.Linear(hid, hid), nn.ReLU())
        self.v1, self.v2 = NoisyLinear(hid, hid), NoisyLinear(hid, ATOMS)
        self.a1, self.a2 = NoisyLinear(hid, hid), NoisyLinear(hid, ATOMS * ACTIONS)
        self.register_buffer("support", torch.linspace(V_MIN, V_MAX, ATOMS))

    def forward(self, o):
        h = self.trunk(o)
        v = self.v2(F.relu(self.v1(h))).unsqueeze(1)
        a = self.a2(F.relu(self.a1(h))).view(-1, ACTIONS, ATOMS)
        return F.log_softmax(v + a - a.mean(1, keepdim=True), -1)

    def q(self, logp):
        return (logp.exp() * self.support).sum(-1)


def c51_loss(online, target, o, a, r, o2, d, w):
    rows = torch.arange(len(a))
    with torch.no_grad():
        best = online.q(online(o2)).argmax(1)
        p_next = target(o2)[rows, best].exp()
        tz = (r[:, None] + (1 - d[:, None]) * GAMMA**N_STEP * online.support).clamp(V_MIN, V_MAX)
        b = (tz - V_MIN) / ((V_MAX - V_MIN) / (ATOMS - 1))
        lo, hi = b.floor(), b.ceil()
        lo = torch.where((hi > 0) & (lo == hi), lo - 1, lo)
        hi = torch.where(lo == hi, hi + 1, hi)
        m = torch.zeros_like(p_next)
        m.scatter_add_(1, lo.long(), p_next * (hi - b))
        m.scatter_add_(1, hi.long(), p_next * (b - lo))
    ce = -(m * online(o)[rows, a]).sum(1)
    return (w * ce).mean(), ce.detach()


def main(decisions=200, warm=24, batch=256, updates_per_step=2):
    torch.manual_seed(1)
    env, replay = LiftLanes(4), PrioritisedReplay(20_000)
    online = Dispatcher()
    target = copy.deepcopy(online).requires_grad_(False)
    opt = torch.optim.Adam(online.parameters(), lr=5e-4, eps=1.5e-4)
    loss_fn = torch.compile(c51_loss)
    act_fn = torch.compile(lambda o: online.q(online(o)).argmax(1))

    o, window = env.obs(), []
    served, losses, n_upd, t0 = 0.0, [], 0, time.perf_counter()
    for t in range(decisions):
        with torch.no_grad():
            act = act_fn(torch.from_numpy(o)).numpy()
        o2, r, done, out = env.step(act)
        served += out
        window.append((o, act, r, done))
        if len(window) == N_STEP:
            ret, ended = np.zeros(LANES, np.float32), np.zeros(LANES, bool)
            for k, (_, _, rk, dk) in enumerate(window):
                ret += np.where(ended, 0, GAMMA**k * rk)
                ended |= dk
            replay.add(window[0][0], window[0][1], ret, o2, ended.astype(np.float32))
            window.pop(0)
        o = o2
        if t >= warm:
            for _ in range(updates_per_step):
                at, cols = replay.sample(batch, beta=0.4 + 0.6 * t / decisions)
                loss, err = loss_fn(online, target, *cols)
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(online.parameters(), 10.0)
                opt.step()
                replay.update(at, err.numpy())
                losses.append(loss.item())
                n_upd += 1
            if t % 20 == 0:
                target.load_state_dict(online.state_dict())
        if (t + 1) % 50 == 0:
            recent = sum(losses[-50:]) / max(1, len(losses[-50:]))
            print(
                f"t={t + 1:4d} delivered {served:6.0f}  loss {recent:.4f}  updates/s {n_upd / (time.perf_counter() - t0):6.1f}"
            )
            served = 0.0


if __name__ == "__main__":
    main()
