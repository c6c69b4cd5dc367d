"""PPO on a batched pendulum swing-up written in torch (no simulator needed)."""

import time

import torch
import torch.nn as nn
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from tensordict.nn.distributions import NormalParamExtractor
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

N_ENVS = 64
HORIZON = 64
FRAMES_PER_BATCH = N_ENVS * HORIZON
MINIBATCH = 1024
EPOCHS = 4
ITERATIONS = 6
MAX_TORQUE = 2.0
EPISODE = 200


class Pendulum:
    def __init__(self, n):
        self.th = (torch.rand(n) * 2 - 1) * torch.pi
        self.dth = torch.rand(n) * 2 - 1
        self.t = torch.randint(0, EPISODE, (n,))

    def obs(self):
        return torch.stack([self.th.cos(), self.th.sin(), self.dth / 8], dim=-1)

    def step(self, action):
        u = action.squeeze(-1) * MAX_TORQUE
        angle = torch.remainder(self.th + torch.pi, 2 * torch.pi) - torch.pi
        reward = -(angle**2 + 0.1 * self.dth**2 + 0.001 * u**2)
        self.dth = (self.dth + (15 * self.th.sin() + 3 * u) * 0.05).clamp(-8, 8)
        self.th = self.th + self.dth * 0.05
        self.t = self.t + 1
        done = self.t >= EPISODE
        nxt = TensorDict(
            observation=self.obs(),
            reward=reward.unsqueeze(-1),
            done=done.unsqueeze(-1),
            terminated=torch.zeros_like(done).unsqueeze(-1),
            batch_size=[self.th.numel()],
        )
        fresh = Pendulum(self.th.numel())
        self.th = torch.where(done, fresh.th, self.th)
        self.dth = torch.where(done, fresh.dth, self.dth)
        self.t = torch.where(done, torch.zeros_like(self.t), self.t)
        return nxt


def mlp(n_in, n_out, width=128):
    net = nn.Sequential(
        nn.Linear(n_in, width),
        nn.Tanh(),
        nn.Linear(width, width),
        nn.Tanh(),
        nn.Linear(width, n_out),
    )
    for layer in net:
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight, 1.0)
            nn.init.zeros_(layer.bias)
    return net


torch.manual_seed(42)
actor = ProbabilisticActor(
    TensorDictModule(
        nn.Sequential(mlp(3, 2), NormalParamExtractor()),
        in_keys=["observation"],
        out_keys=["loc", "scale"],
    ),
    in_keys=["loc", "scale"],
    distribution_class=TanhNormal,
    return_log_prob=True,
)
critic = ValueOperator(mlp(3, 1), in_keys=["observation"])
advantage = GAE(gamma=0.95, lmbda=0.9, value_network=critic, average_gae=True)
loss_module = ClipPPOLoss(
    actor,
    critic,
    clip_epsilon=0.2,
    entropy_coeff=1e-3,
    critic_coeff=0.5,
    normalize_advantage=True,
)
optim = torch.optim.Adam(loss_module.parameters(), lr=3e-4, eps=1e-5)
buffer = TensorDictReplayBuffer(
    storage=LazyTensorStorage(FRAMES_PER_BATCH),
    sampler=SamplerWithoutReplacement(),
    batch_size=MINIBATCH,
)


@torch.no_grad()
def rollout(env):
    steps = []
    for _ in range(HORIZON):
        td = TensorDict(observation=env.obs(), batch_size=[N_ENVS])
        td = actor(td)
        td["next"] = env.step(td["action"])
        steps.append(td)
    return torch.stack(steps, dim=1).contiguous()


@torch.compile
def update(batch):
    optim.zero_grad(set_to_none=True)
    loss = loss_module(batch)
    total = loss["loss_objective"] + loss["loss_critic"] + loss["loss_entropy"]
    total.backward()
    torch.nn.utils.clip_grad_norm_(loss_module.parameters(), 0.5)
    optim.step()
    return loss.detach()


env = Pendulum(N_ENVS)
start = time.perf_counter()
for it in range(ITERATIONS):
    data = rollout(env)
    stats = []
    for _ in range(EPOCHS):
        with torch.no_grad():
            data = advantage(data)
        buffer.empty()
        buffer.extend(data.reshape(-1))
        for batch in buffer:
            stats.append(update(batch))
    stats = torch.stack(stats).mean()
    print(
        f"iteration {it + 1:2d}  reward {data['next', 'reward'].mean():7.3f}  "
        f"objective {stats['loss_objective']:+.4f}  critic {stats['loss_critic']:.3f}  "
        f"entropy {stats['entropy']:.3f}  {time.perf_counter() - start:.1f} s"
    )
