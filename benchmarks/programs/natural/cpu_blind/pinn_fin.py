"""Physics-informed network for transient conduction in a heat-sink fin with
temperature-dependent conductivity and convective loss (non-dimensional)."""

import math
import time

import torch
from torch.func import grad, vmap

torch.set_num_threads(2)

BIOT = 1.5  # convective loss along the fin
BETA = 0.4  # conductivity slope k(T) = 1 + BETA T
WIDTHS = [2, 64, 64, 64, 64, 1]


def init_params(gen):
    params = []
    for i, o in zip(WIDTHS[:-1], WIDTHS[1:]):
        w = torch.randn(i, o, generator=gen) * math.sqrt(2 / (i + o))
        params.append((w.requires_grad_(), torch.zeros(o, requires_grad=True)))
    return params


def temperature(params, x, t):
    h = torch.stack([x, t])
    for w, b in params[:-1]:
        h = torch.tanh(h @ w + b)
    w, b = params[-1]
    return (h @ w + b)[0]


def flux(params, x, t):
    """k(T) dT/dx at one point."""
    u = temperature(params, x, t)
    return (1 + BETA * u) * grad(temperature, argnums=1)(params, x, t)


def residual(params, x, t):
    u = temperature(params, x, t)
    u_t = grad(temperature, argnums=2)(params, x, t)
    dq_dx = grad(flux, argnums=1)(params, x, t)
    return u_t - dq_dx + BIOT * u


def loss_fn(params, x, t, xb, tb):
    res = vmap(residual, in_dims=(None, 0, 0))(params, x, t)
    # base follows a ramp, tip is insulated, the fin starts cold
    base = vmap(temperature, in_dims=(None, 0, 0))(params, torch.zeros_like(tb), tb)
    tip = vmap(flux, in_dims=(None, 0, 0))(params, torch.ones_like(tb), tb)
    cold = vmap(temperature, in_dims=(None, 0, 0))(params, xb, torch.zeros_like(xb))
    pde = res.square().mean()
    bc = (base - (1 - torch.exp(-8 * tb))).square().mean() + tip.square().mean()
    ic = cold.square().mean()
    return pde + 20 * bc + 20 * ic, pde, bc, ic


def main():
    gen = torch.Generator().manual_seed(3)
    params = init_params(gen)
    flat = [p for wb in params for p in wb]
    opt = torch.optim.Adam(flat, lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=150)
    loss_c = torch.compile(loss_fn)

    times = []
    for it in range(150):
        x, t = torch.rand(2, 2048, generator=gen)
        xb, tb = torch.rand(2, 256, generator=gen)
        t0 = time.perf_counter()
        loss, pde, bc, ic = loss_c(params, x, t, xb, tb)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        times.append(time.perf_counter() - t0)
        if it % 30 == 0 or it == 149:
            print(
                f"iter {it:4d} loss {loss.item():.4e} pde {pde.item():.2e} bc {bc.item():.2e} ic {ic.item():.2e}"
            )

    with torch.no_grad():
        xs = torch.linspace(0, 1, 6)
        prof = vmap(temperature, in_dims=(None, 0, None))(params, xs, torch.tensor(1.0))
    print("T(x, t=1):", [round(v, 3) for v in prof.tolist()])
    steady = sorted(times[5:])
    print(f"median {1e3 * steady[len(steady) // 2]:.2f} ms per iteration")


if __name__ == "__main__":
    main()
