"""PPO on thousands of simulated quadrotors flying through gates; simulator and learner both on the GPU."""

import torch
import torch.nn as nn

device = "cuda"
N_ENVS, HORIZON, ITERATIONS = 8192, 32, 30
EPOCHS, MINIBATCHES = 4, 8
GAMMA, LAM, CLIP = 0.99, 0.95, 0.2


def quat_rotate(q, v):
    w, u = q[:, :1], q[:, 1:]
    t = 2 * torch.linalg.cross(u, v)
    return v + w * t + torch.linalg.cross(u, t)


def quat_mul(a, b):
    aw, ax, ay, az = a.unbind(-1)
    bw, bx, by, bz = b.unbind(-1)
    return torch.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        dim=-1,
    )


class QuadrotorGates:
    dt, substeps, mass, arm, drag, max_thrust = 0.02, 4, 0.8, 0.12, 0.15, 5.0
    obs_dim, act_dim, episode = 19, 4, 300

    def __init__(self, n):
        self.n = n
        self.inertia = torch.tensor([4e-3, 4e-3, 7e-3], device=device)
        angles = torch.linspace(0, 6.2832, 9, device=device)[:-1]
        self.gates = torch.stack([4 * angles.cos(), 4 * angles.sin(), 1.5 + 0.5 * (2 * angles).sin()], dim=1)
        self.gust = 0.0
        self.pos, self.vel, self.quat, self.omega, self.rotors = self.spawn()
        self.gate = torch.zeros(n, dtype=torch.long, device=device)
        self.age = torch.randint(0, self.episode, (n,), device=device)

    def spawn(self):
        pos = torch.randn(self.n, 3, device=device) * 0.3 + torch.tensor([3.0, -1.0, 1.5], device=device)
        quat = torch.randn(self.n, 4, device=device) * 0.05
        quat[:, 0] = 1.0
        quat = quat / quat.norm(dim=-1, keepdim=True)
        zeros = torch.zeros(self.n, 3, device=device)
        return pos, zeros, quat, zeros.clone(), torch.full((self.n, 4), 0.4, device=device)

    def observe(self):
        conj = self.quat * torch.tensor([1.0, -1.0, -1.0, -1.0], device=device)
        to_gate = quat_rotate(conj, self.gates[self.gate] - self.pos)
        to_next = quat_rotate(conj, self.gates[(self.gate + 1) % 8] - self.pos)
        return torch.cat(
            [
                to_gate / 4,
                to_next / 4,
                quat_rotate(conj, self.vel) / 5,
                self.quat,
                self.omega / 10,
                self.pos[:, 2:] / 2,
                self.rotors.mean(1, keepdim=True),
                self.age[:, None] / 300.0,
            ],
            dim=-1,
        )

    @torch.compile
    def step(self, action):
        command = torch.sigmoid(action)
        gravity = torch.tensor([0.0, 0.0, -9.81], device=device)
        before = (self.gates[self.gate] - self.pos).norm(dim=-1)
        pos, vel, quat, omega, rotors = self.pos, self.vel, self.quat, self.omega, self.rotors
        h = self.dt / self.substeps
        wind = self.gust * torch.randn(self.n, 3, device=device)
        for _ in range(self.substeps):
            rotors = rotors + (command - rotors) * (h / 0.03)
            thrust = self.max_thrust * rotors.square()
            f1, f2, f3, f4 = thrust.unbind(-1)
            torque = torch.stack(
                [self.arm * (f1 - f2 - f3 + f4), self.arm * (f1 + f2 - f3 - f4), 0.02 * (f1 - f2 + f3 - f4)],
                dim=-1,
            )
            lift = torch.zeros_like(vel)
            lift[:, 2] = thrust.sum(-1)
            acc = (quat_rotate(quat, lift) - self.drag * (vel - wind)) / self.mass + gravity
            vel = vel + h * acc
            pos = pos + h * vel
            omega = omega + h * (torque - torch.linalg.cross(omega, self.inertia * omega)) / self.inertia
            omega = omega.clamp(-30, 30)
            spin = torch.cat([torch.zeros_like(omega[:, :1]), omega], dim=-1)
            quat = quat + 0.5 * h * quat_mul(quat, spin)
            quat = quat / quat.norm(dim=-1, keepdim=True)
        after = (self.gates[self.gate] - pos).norm(dim=-1)
        passed = after < 0.5
        crashed = (pos[:, 2] < 0.05) | (pos.abs().amax(-1) > 8)
        reward = 4 * (before - after) + 5.0 * passed - 10.0 * crashed - 0.002 * omega.square().sum(-1)
        self.gate = torch.where(passed, (self.gate + 1) % 8, self.gate)
        self.age = self.age + 1
        done = crashed | (self.age >= self.episode)
        fresh = self.spawn()
        d = done[:, None]
        self.pos, self.vel, self.quat, self.omega, self.rotors = (
            torch.where(d, new, old) for new, old in zip(fresh, (pos, vel, quat, omega, rotors))
        )
        self.gate = torch.where(done, torch.zeros_like(self.gate), self.gate)
        self.age = torch.where(done, torch.zeros_like(self.age), self.age)
        return self.observe(), reward, done.float(), passed


class ActorCritic(nn.Module):
    def __init__(self, obs, act, width=256):
        super().__init__()
        self.actor = nn.Sequential(
            nn.Linear(obs, width), nn.ELU(), nn.Linear(width, width), nn.ELU(), nn.Linear(width, act)
        )
        self.critic = nn.Sequential(
            nn.Linear(obs, width), nn.ELU(), nn.Linear(width, width), nn.ELU(), nn.Linear(width, 1)
        )
        self.log_std = nn.Parameter(torch.full((act,), -0.7))

    def forward(self, obs):
        return self.actor(obs), self.critic(obs).squeeze(-1)


def log_prob(mean, log_std, action):
    return (-0.5 * ((action - mean) / log_std.exp()).square() - log_std - 0.9189).sum(-1)


@torch.compile
def gae(rewards, values, dones, last_value):
    out = torch.empty_like(rewards)
    running = torch.zeros_like(last_value)
    nxt = last_value
    for t in range(HORIZON - 1, -1, -1):
        alive = 1 - dones[t]
        running = rewards[t] + GAMMA * nxt * alive - values[t] + GAMMA * LAM * alive * running
        out[t] = running
        nxt = values[t]
    return out


@torch.compile(mode="reduce-overhead")
def ppo_loss(model, obs, action, old_logp, adv, ret):
    mean, value = model(obs)
    ratio = (log_prob(mean, model.log_std, action) - old_logp).exp()
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    policy = -torch.min(ratio * adv, ratio.clamp(1 - CLIP, 1 + CLIP) * adv).mean()
    return policy + 0.5 * (value - ret).square().mean() - 0.002 * model.log_std.sum()


def main():
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    env = QuadrotorGates(N_ENVS)
    model = ActorCritic(env.obs_dim, env.act_dim).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=3e-4)
    obs = env.observe()
    for it in range(ITERATIONS):
        env.gust = min(2.0, 0.1 * it)  # a little more wind with every iteration
        store = {k: [] for k in ("obs", "act", "logp", "val", "rew", "done", "passed")}
        with torch.no_grad():
            for _ in range(HORIZON):
                mean, value = model(obs)
                action = mean + model.log_std.exp() * torch.randn_like(mean)
                logp = log_prob(mean, model.log_std, action)
                new_obs, reward, done, passed = env.step(action)
                for k, v in zip(store, (obs, action, logp, value, reward, done, passed)):
                    store[k].append(v)
                obs = new_obs
            data = {k: torch.stack(v) for k, v in store.items()}
            adv = gae(data["rew"], data["val"], data["done"], model(obs)[1])
        flat = [data[k].flatten(0, 1) for k in ("obs", "act", "logp")] + [
            adv.flatten(),
            (adv + data["val"]).flatten(),
        ]
        for _ in range(EPOCHS):
            for idx in torch.randperm(N_ENVS * HORIZON, device=device).chunk(MINIBATCHES):
                loss = ppo_loss(model, *(x[idx] for x in flat))
                opt.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                opt.step()
        if it % 5 == 4:
            print(
                f"iteration {it + 1:3d}  reward {data['rew'].mean():+.3f}  gates {int(data['passed'].sum())}  "
                f"loss {loss.item():.3f}"
            )


if __name__ == "__main__":
    main()
