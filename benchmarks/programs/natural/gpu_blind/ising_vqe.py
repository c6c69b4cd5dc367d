"""Variational ground state of a transverse-field Ising ring.

Full state-vector simulation of a layered RY / ZZ circuit, trained with Adam.
"""

import math
import os
import time

import torch
import torch.nn as nn

device = os.environ.get("DEVICE", "cuda")
SCALE = float(os.environ.get("SCALE", "1"))

QUBITS = max(8, int(20 + 2 * math.log2(SCALE)))
LAYERS = 2
STEPS = 40
FIELD = 1.05

torch.manual_seed(5)


def sync():
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def bit_signs(n):
    idx = torch.arange(2**n, device=device)
    return torch.stack([1.0 - 2.0 * ((idx >> (n - 1 - q)) & 1).float() for q in range(n)])


def apply_one_qubit(state, gate, q, n):
    psi = state.reshape(2**q, 2, 2 ** (n - 1 - q))
    return torch.einsum("ij,ajb->aib", gate, psi).reshape(-1)


def ry(theta):
    c, s = torch.cos(theta / 2), torch.sin(theta / 2)
    return torch.stack([torch.stack([c, -s]), torch.stack([s, c])]).to(torch.complex64)


def rx(theta):
    c, s = torch.cos(theta / 2), torch.sin(theta / 2)
    zero = torch.zeros_like(c)
    diag = torch.complex(c, zero)
    off = torch.complex(zero, -s)
    return torch.stack([torch.stack([diag, off]), torch.stack([off, diag])])


class RingAnsatz(nn.Module):
    def __init__(self, n, layers):
        super().__init__()
        self.n, self.layers = n, layers
        self.theta_y = nn.Parameter(0.6 + 0.1 * torch.randn(layers, n))
        self.theta_x = nn.Parameter(0.1 * torch.randn(layers, n))
        self.theta_zz = nn.Parameter(0.1 * torch.randn(layers))
        signs = bit_signs(n)
        zz = (signs * signs.roll(-1, 0)).sum(0)
        self.register_buffer("zz", zz)
        start = torch.zeros(2**n, dtype=torch.complex64, device=device)
        start[0] = 1.0
        self.register_buffer("start", start)

    def energy(self, state):
        prob = state.real.square() + state.imag.square()
        e = -(prob * self.zz).sum()
        for q in range(self.n):
            psi = state.reshape(2**q, 2, -1)
            overlap = (psi[:, 0].conj() * psi[:, 1]).sum()
            e = e - FIELD * 2.0 * overlap.real
        return e / self.n

    def forward(self):
        state = self.start
        for layer in range(self.layers):
            for q in range(self.n):
                state = apply_one_qubit(state, ry(self.theta_y[layer, q]), q, self.n)
            phase = torch.exp(-0.5j * self.theta_zz[layer] * self.zz)
            state = state * phase
            for q in range(self.n):
                state = apply_one_qubit(state, rx(self.theta_x[layer, q]), q, self.n)
        return self.energy(state)


def main():
    model = RingAnsatz(QUBITS, LAYERS).to(device)
    run = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=0.05)
    print(f"{QUBITS} qubits, {LAYERS} layers, {sum(p.numel() for p in model.parameters())} angles")
    times = []
    for step in range(STEPS):
        sync()
        t0 = time.perf_counter()
        opt.zero_grad()
        energy = run()
        energy.backward()
        opt.step()
        sync()
        times.append(time.perf_counter() - t0)
        if step % 10 == 0:
            print(f"step {step:3d}  energy per site {energy.item():+.5f}")
    tail = times[len(times) // 2 :]
    print(f"time per step: {1e3 * sum(tail) / len(tail):.2f} ms")


if __name__ == "__main__":
    main()
