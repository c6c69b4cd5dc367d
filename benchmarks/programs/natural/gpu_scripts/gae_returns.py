"""Advantages and returns of many rollouts, normalised, then the clipped surrogate's terms."""

import torch

dev = "cuda"
T, N = 48, 32768
rew, val, done = (
    torch.randn(T, N, device=dev),
    torch.randn(T + 1, N, device=dev),
    torch.rand(T, N, device=dev) < 0.02,
)
logp, old = torch.randn(T, N, device=dev), torch.randn(T, N, device=dev)


def advantages(rew, val, done, logp, old, gamma: float, lam: float):
    adv = torch.zeros_like(rew)
    last = torch.zeros_like(rew[0])
    live = 1 - done.float()
    for t in reversed(range(rew.shape[0])):
        delta = rew[t] + gamma * val[t + 1] * live[t] - val[t]
        last = delta + gamma * lam * live[t] * last
        adv[t] = last
    ret = adv + val[:-1]
    norm = (adv - adv.mean()) / (adv.std() + 1e-8)
    ratio = (logp - old).exp()
    surrogate = torch.minimum(ratio * norm, ratio.clamp(0.8, 1.2) * norm).mean()
    explained = 1 - (ret - val[:-1]).var() / ret.var()
    return surrogate, ret, explained


fast = torch.compile(advantages)
with torch.no_grad():
    for _ in range(50):
        s, r, e = fast(rew, val, done, logp, old, 0.99, 0.95)
print(s.item(), e.item())
