"""Dispersive readout of a transmon: master equation of qubit (4 levels) and resonator (20 levels).

A batch of drive amplitudes and detunings is integrated together with RK4 on the density matrices,
once with the qubit in |0> and once in |1>; the separation of the two pointer states gives the best
readout setting.
"""

import math
import time

import torch

torch.manual_seed(5)
device = "cuda"
ctype = torch.complex64

LEVELS, PHOTONS = 4, 20
DIM = LEVELS * PHOTONS
N_AMP, N_DET = 24, 40
STEPS, T_END = 250, 0.5  # microseconds
DT = T_END / STEPS

KAPPA = 2 * math.pi * 1.5
GAMMA = 1.0 / 30.0
CHI = -2 * math.pi * 0.8
ALPHA = -2 * math.pi * 20.0  # rotating frame with a reduced anharmonicity


def lowering(n):
    return torch.diag(torch.sqrt(torch.arange(1, n, dtype=torch.float32)), 1).to(ctype)


def operators():
    a = torch.kron(torch.eye(LEVELS, dtype=ctype), lowering(PHOTONS)).to(device)
    q = torch.kron(lowering(LEVELS), torch.eye(PHOTONS, dtype=ctype)).to(device)
    return a, q


class Readout:
    def __init__(self):
        self.a, self.q = operators()
        self.ad, self.qd = self.a.mH.contiguous(), self.q.mH.contiguous()
        n_res = self.ad @ self.a
        n_qub = self.qd @ self.q
        amp = torch.linspace(2.0, 20.0, N_AMP, device=device)
        det = torch.linspace(-2 * math.pi * 1.5, 2 * math.pi * 1.5, N_DET, device=device)
        self.amp = amp[:, None].expand(N_AMP, N_DET).reshape(-1)
        self.det = det[None, :].expand(N_AMP, N_DET).reshape(-1)
        h0 = CHI * n_res @ n_qub + 0.5 * ALPHA * (n_qub @ n_qub - n_qub)
        self.h0 = h0 + self.det[:, None, None] * n_res
        self.drive = self.amp[:, None, None] * (self.a + self.ad)
        self.jumps = [math.sqrt(KAPPA) * self.a, math.sqrt(GAMMA) * self.q]
        self.loss = sum(j.mH @ j for j in self.jumps)

    def rhs(self, rho, envelope):
        h = self.h0 + envelope * self.drive
        k = -1j * h - 0.5 * self.loss
        m = torch.bmm(k, rho)
        out = m + m.mH
        for j in self.jumps:
            out = out + j @ rho @ j.mH
        return out

    def step(self, rho, e0, e1, e2):
        k1 = self.rhs(rho, e0)
        k2 = self.rhs(rho + 0.5 * DT * k1, e1)
        k3 = self.rhs(rho + 0.5 * DT * k2, e1)
        k4 = self.rhs(rho + DT * k3, e2)
        return rho + DT / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)

    def start(self, level):
        psi = torch.zeros(DIM, dtype=ctype, device=device)
        psi[level * PHOTONS] = 1.0
        rho = torch.outer(psi, psi.conj())
        return rho.expand(N_AMP * N_DET, DIM, DIM).contiguous()


def pulse(times):
    """Smooth rise, flat top and fall."""
    rise = 0.04
    up = torch.sigmoid((times - 2 * rise) / (rise / 3))
    down = torch.sigmoid((T_END - 2 * rise - times) / (rise / 3))
    return up * down


def main():
    system = Readout()
    step = torch.compile(system.step)
    envelope = pulse(torch.linspace(0, T_END, 2 * STEPS + 1)).to(device)
    signals = []
    for level in (0, 1):
        rho = system.start(level)
        record = []
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for n in range(STEPS):
            rho = step(rho, envelope[2 * n], envelope[2 * n + 1], envelope[2 * n + 2])
            if n % 5 == 4:
                record.append(torch.einsum("ij,bji->b", system.a, rho))
        torch.cuda.synchronize()
        spent = time.perf_counter() - begin
        trace = torch.einsum("bii->b", rho).real
        photons = torch.einsum("ij,bji->b", system.ad @ system.a, rho).real
        print(
            f"qubit |{level}>: {spent:.2f} s, trace {trace.min().item():.5f}..{trace.max().item():.5f}, "
            f"photons up to {photons.max().item():.2f}"
        )
        signals.append(torch.stack(record))
    separation = (signals[0] - signals[1]).abs().square().sum(0) * (5 * DT) * KAPPA
    best = int(separation.argmax())
    print(
        f"best: amplitude {system.amp[best].item():.2f}, detuning "
        f"{system.det[best].item() / (2 * math.pi):+.3f} MHz, SNR^2 {separation[best].item():.2f}"
    )


if __name__ == "__main__":
    main()
