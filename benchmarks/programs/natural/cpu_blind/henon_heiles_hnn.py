"""Hamiltonian neural network of the Henon-Heiles system, trained on short leapfrog segments, then rolled out."""

import torch
from torch.func import grad, vmap

torch.manual_seed(3)
WIDTH, BATCH, STEPS, N_TRAIN, DT = 96, 256, 4, 110, 0.1


def true_hamiltonian(x):
    q1, q2, p1, p2 = x[0], x[1], x[2], x[3]
    return 0.5 * (p1**2 + p2**2 + q1**2 + q2**2) + q1**2 * q2 - q2**3 / 3


def init_params(sizes):
    params = []
    for n_in, n_out in zip(sizes[:-1], sizes[1:]):
        w = (torch.randn(n_out, n_in) * (1.0 / n_in) ** 0.5).requires_grad_()
        b = torch.zeros(n_out, requires_grad=True)
        params.append((w, b))
    return params


def net_hamiltonian(params, x):
    for w, b in params[:-1]:
        x = torch.tanh(w @ x + b)
    w, b = params[-1]
    return (w @ x + b)[0]


def leapfrog(field, x, dt):
    """Stormer-Verlet with dH/dx given by field; works for a separable H, and well enough for a nearly separable one."""
    q, p = x[:, :2], x[:, 2:]
    p = p - 0.5 * dt * field(torch.cat([q, p], 1))[:, :2]
    q = q + dt * field(torch.cat([q, p], 1))[:, 2:]
    p = p - 0.5 * dt * field(torch.cat([q, p], 1))[:, :2]
    return torch.cat([q, p], 1)


true_field = vmap(grad(true_hamiltonian))


def reference(x0, n, sub=10):
    xs = [x0]
    for _ in range(n):
        x = xs[-1]
        for _ in range(sub):
            x = leapfrog(true_field, x, DT / sub)
        xs.append(x)
    return torch.stack(xs)


def segment_loss(params, x0, target):
    def field(x):
        return vmap(grad(net_hamiltonian, argnums=1), in_dims=(None, 0))(params, x)

    x, loss = x0, 0.0
    for k in range(STEPS):
        x = leapfrog(field, x, DT)
        loss = loss + ((x - target[k]) ** 2).sum(1).mean()
    return loss / STEPS


def sample_states(n):
    x = 0.35 * torch.randn(4 * n, 4)
    e = vmap(true_hamiltonian)(x)
    return x[(e < 1 / 8) & (e > 0.01) & (x.norm(dim=1) < 0.7)][:n]


def main():
    params = init_params([4, WIDTH, WIDTH, 1])
    flat = [p for layer in params for p in layer]
    opt = torch.optim.Adam(flat, lr=3e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, N_TRAIN)

    states = sample_states(4096)
    targets = reference(states, STEPS)[1:]
    print(f"{len(states)} states in the pool")

    compiled_loss = torch.compile(segment_loss)
    for it in range(N_TRAIN):
        idx = torch.randint(0, len(states), (BATCH,))
        opt.zero_grad()
        loss = compiled_loss(params, states[idx], targets[:, idx])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(flat, 1.0)
        opt.step()
        sched.step()
        if it % 25 == 0 or it == N_TRAIN - 1:
            print(f"iter {it:4d}  loss {loss.item():.3e}")

    # long roll-out: the energy should stay near its first value
    @torch.compile
    def advance(params, x):
        def field(y):
            return vmap(grad(net_hamiltonian, argnums=1), in_dims=(None, 0))(params, y)

        return leapfrog(field, x, DT)

    with torch.no_grad():
        x = states[:64]
        e0 = vmap(true_hamiltonian)(x)
        for _ in range(150):
            x = advance(params, x)
        e1 = vmap(true_hamiltonian)(x)
    print(f"relative energy change after 150 steps {((e1 - e0).abs() / e0).median():.3f}")


if __name__ == "__main__":
    main()
