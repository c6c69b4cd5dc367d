"""Alternating least squares for implicit feedback: a small system for each user, then for each item."""

import torch


def half_step(ratings, other, reg=0.1, alpha=20.0):
    confidence = 1 + alpha * ratings
    gram = other.T @ other
    a = gram + torch.einsum("ui,ik,il->ukl", confidence - 1, other, other) + reg * torch.eye(other.shape[1])
    b = (confidence * (ratings > 0)) @ other
    return torch.linalg.solve(a, b)


torch.manual_seed(0)
ratings = (torch.rand(600, 300) < 0.05).float() * torch.rand(600, 300)
users, items = torch.randn(600, 16) * 0.1, torch.randn(300, 16) * 0.1
solve = torch.compile(half_step)
for _ in range(12):
    users = solve(ratings, items)
    items = solve(ratings.T.contiguous(), users)
print(((users @ items.T) * (ratings > 0)).sum().item())
